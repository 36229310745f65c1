// SPDX-License-Identifier: Apache-2.0
// The same under MPI_THREAD_MULTIPLE, by one thread and by two.
#include <pthread.h>

#include "family.h"

#define WORLD MPI_COMM_WORLD

static void talk(int n, int tag) {
  char out[8] = {0}, in[8];
  MPI_Status own;
  for (int i = 0; i < n; i++) {
    if (rank == 0) MPI_Send(out, 8, MPI_BYTE, peer, tag, WORLD);
    MPI_Recv(in, 8, MPI_BYTE, peer, tag, WORLD, &own);
    if (rank == 1) MPI_Send(out, 8, MPI_BYTE, peer, tag, WORLD);
  }
}
static void exchange(int n, int unused) {
  MPI_Request two[2];
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Irecv(receiving, 8, MPI_BYTE, peer, 2, WORLD, &two[0]);
    MPI_Isend(sending, 8, MPI_BYTE, peer, 2, WORLD, &two[1]);
    MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
  }
}
static void rate(int n, int count) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < count; k++) {
      if (rank == 0) MPI_Isend(sending, 8, MPI_BYTE, peer, 1, WORLD, &requests[k]);
      else MPI_Irecv(receiving, 8, MPI_BYTE, peer, 1, WORLD, &requests[k]);
    }
    MPI_Waitall(count, requests, statuses);
    if (rank == 0) MPI_Recv(receiving, 8, MPI_BYTE, peer, 2, WORLD, &status);
    else MPI_Send(sending, 8, MPI_BYTE, peer, 2, WORLD);
  }
}
static void barrier(int n, int unused) {
  (void)unused;
  for (int i = 0; i < n; i++) MPI_Barrier(WORLD);
}
static void allreduce(int n, int unused) {
  (void)unused;
  for (int i = 0; i < n; i++) MPI_Allreduce(numbers, results, 1, MPI_DOUBLE, MPI_SUM, WORLD);
}
static void iprobe_none(int n, int unused) {
  (void)unused;
  for (int i = 0, flag; i < n; i++) MPI_Iprobe(MPI_ANY_SOURCE, 7, WORLD, &flag, &status);
}

// Messages for two threads: whoever gets one answers it (OSU's latency_mt).
static int rounds;
static void *answer(void *unused) {
  char bytes[8];
  MPI_Status own;
  (void)unused;
  for (int i = 0; i < rounds; i++) {
    MPI_Recv(bytes, 8, MPI_BYTE, peer, 11, WORLD, &own);
    MPI_Send(bytes, 8, MPI_BYTE, peer, 12, WORLD);
  }
  return NULL;
}
static void two_receivers(int n, int unused) {
  (void)unused;
  if (rank == 0) {
    for (int i = 0; i < 2 * n; i++) {
      MPI_Send(sending, 8, MPI_BYTE, peer, 11, WORLD);
      MPI_Recv(receiving, 8, MPI_BYTE, peer, 12, WORLD, &status);
    }
    return;
  }
  pthread_t thread;
  rounds = n;
  pthread_create(&thread, NULL, answer, NULL);
  answer(NULL);
  pthread_join(thread, NULL);
}
// Two threads of a rank that call without anybody to wait for.
static void *probe_alone(void *unused) {
  int flag;
  MPI_Status own;
  (void)unused;
  for (int i = 0; i < rounds; i++) MPI_Iprobe(MPI_ANY_SOURCE, 7, WORLD, &flag, &own);
  return NULL;
}
static void two_probe(int n, int unused) {
  pthread_t thread;
  (void)unused;
  rounds = n;
  pthread_create(&thread, NULL, probe_alone, NULL);
  probe_alone(NULL);
  pthread_join(thread, NULL);
}

const struct Case thread_cases[] = {
    {"threads", "ping-pong 8 B, half round", talk, 1, 2},
    {"threads", "Irecv, Isend, Waitall 8 B", exchange, 0, 1},
    {"threads", "rate, 64 Isend and Irecv, statuses", rate, 64, 64},
    {"threads", "Barrier", barrier, 0, 1},
    {"threads", "Allreduce 8 B", allreduce, 0, 1},
    {"threads", "Iprobe, nothing there", iprobe_none, 0, 1},
    {"threads", "Iprobe by two threads", two_probe, 0, 2},
    {"threads", "ping-pong with two receivers", two_receivers, 0, 4},
    {0},
};
