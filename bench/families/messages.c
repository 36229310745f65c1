// SPDX-License-Identifier: Apache-2.0
// Messages: there and back again, probed, of derived types, and as many as go through.
#include "family.h"

#define WORLD MPI_COMM_WORLD

// One rank does `first` and then `second`, the other one the reverse.
#define TURNS(first, second)      \
  for (int i = 0; i < n; i++) {   \
    if (rank == 0) first, second; \
    else second, first;           \
  }
#define SEND MPI_Send(sending, 8, MPI_BYTE, peer, 1, WORLD)
#define RECV(from, tag, status) MPI_Recv(receiving, 8, MPI_BYTE, from, tag, WORLD, status)

static void pingpong(int n, int bytes) {
  TURNS(MPI_Send(sending, bytes, MPI_BYTE, peer, 1, WORLD),
        MPI_Recv(receiving, bytes, MPI_BYTE, peer, 1, WORLD, &status))
}
static void pingpong_any(int n, int unused) {
  (void)unused;
  TURNS(SEND, RECV(MPI_ANY_SOURCE, MPI_ANY_TAG, &status))
}
static void pingpong_requests(int n, int unused) {
  MPI_Request one, other;
  (void)unused;
  TURNS((MPI_Isend(sending, 8, MPI_BYTE, peer, 1, WORLD, &one), MPI_Wait(&one, &status)),
        (MPI_Irecv(receiving, 8, MPI_BYTE, peer, 1, WORLD, &other), MPI_Wait(&other, &status)))
}
static void typed(int n, int count, MPI_Datatype type) {
  TURNS(MPI_Send(numbers, count, type, peer, 1, WORLD),
        MPI_Recv(results, count, type, peer, 1, WORLD, &status))
}
static void pingpong_vector(int n, int count) { typed(n, count, vector_type); }
static void pingpong_struct(int n, int count) { typed(n, count, struct_type); }
static void pingpong_indexed(int n, int count) { typed(n, count, indexed_type); }
static void ssend(int n, int unused) {
  (void)unused;
  TURNS(MPI_Ssend(sending, 8, MPI_BYTE, peer, 1, WORLD), RECV(peer, 1, &status))
}
static void bsend(int n, int unused) {
  static char room[kBufferBytes];
  char *back;
  int bytes;
  (void)unused;
  MPI_Buffer_attach(room, sizeof room);
  TURNS(MPI_Bsend(sending, 8, MPI_BYTE, peer, 1, WORLD), RECV(peer, 1, &status))
  MPI_Buffer_detach(&back, &bytes);
}
static void probe(int n, int unused) {
  int count;
  (void)unused;
  TURNS(SEND, (MPI_Probe(peer, 1, WORLD, &status), MPI_Get_count(&status, MPI_BYTE, &count),
               MPI_Recv(receiving, count, MPI_BYTE, peer, 1, WORLD, &status)))
}
static void iprobe_recv(int n, int unused) {
  (void)unused;
  for (int i = 0, flag; i < n; i++) {
    if (rank == 0) SEND;
    for (flag = 0; !flag;) MPI_Iprobe(peer, 1, WORLD, &flag, &status);
    RECV(peer, 1, &status);
    if (rank == 1) SEND;
  }
}
static void mprobe(int n, int bytes) {
  MPI_Message message;
  TURNS(MPI_Send(sending, bytes, MPI_BYTE, peer, 1, WORLD),
        (MPI_Mprobe(peer, 1, WORLD, &message, &status),
         MPI_Mrecv(receiving, bytes, MPI_BYTE, &message, &status)))
}
static void improbe(int n, int unused) {
  (void)unused;
  for (int i = 0, flag; i < n; i++) {
    MPI_Message message;
    if (rank == 0) SEND;
    for (flag = 0; !flag;) MPI_Improbe(MPI_ANY_SOURCE, 1, WORLD, &flag, &message, &status);
    MPI_Mrecv(receiving, 8, MPI_BYTE, &message, &status);
    if (rank == 1) SEND;
  }
}
static void iprobe_none(int n, int unused) {
  (void)unused;
  for (int i = 0, flag; i < n; i++) MPI_Iprobe(MPI_ANY_SOURCE, 7, WORLD, &flag, &status);
}
static void sendrecv(int n, int unused) {
  (void)unused;
  for (int i = 0; i < n; i++)
    MPI_Sendrecv(sending, 8, MPI_BYTE, peer, 1, receiving, 8, MPI_BYTE, peer, 1, WORLD, &status);
}
static void sendrecv_replace(int n, int bytes) {
  for (int i = 0; i < n; i++)
    MPI_Sendrecv_replace(sending, bytes, MPI_BYTE, peer, 1, peer, 1, WORLD, &status);
}

// A window of messages and an answer, as benchmarks of message rates do.
static void rate_by_requests(int n, int count) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < count; k++) {
      if (rank == 0) MPI_Isend(sending, 8, MPI_BYTE, peer, 1, WORLD, &requests[k]);
      else MPI_Irecv(receiving, 8, MPI_BYTE, peer, 1, WORLD, &requests[k]);
    }
    MPI_Waitall(count, requests, statuses);
    if (rank == 0) RECV(peer, 2, &status);
    else MPI_Send(sending, 8, MPI_BYTE, peer, 2, WORLD);
  }
}
static void rate_by_calls(int n, int count) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < count; k++) {
      if (rank == 0) SEND;
      else RECV(peer, 1, &status);
    }
    if (rank == 0) RECV(peer, 2, &status);
    else MPI_Send(sending, 8, MPI_BYTE, peer, 2, WORLD);
  }
}
// Messages that have all come before the first is asked for, in the reverse order.
static void unexpected(int n, int count) {
  for (int i = 0; i < n; i++) {
    if (rank == 0) {
      for (int k = 0; k < count; k++) MPI_Send(sending, 64, MPI_BYTE, peer, k, WORLD);
      RECV(peer, 999, &status);
    } else {
      MPI_Probe(peer, count - 1, WORLD, &status);
      for (int k = count; k-- > 0;) MPI_Recv(receiving, 64, MPI_BYTE, peer, k, WORLD, &status);
      MPI_Send(sending, 8, MPI_BYTE, peer, 999, WORLD);
    }
  }
}

const struct Case message_cases[] = {
    {"messages", "ping-pong 8 B, half round", pingpong, 8, 2},
    {"messages", "ping-pong 8 B, any source and tag", pingpong_any, 0, 2},
    {"messages", "ping-pong 8 B, Isend, Irecv, Wait", pingpong_requests, 0, 2},
    {"messages", "ping-pong 64 KiB", pingpong, 1 << 16, 2},
    {"messages", "ping-pong 1 MiB", pingpong, 1 << 20, 2},
    {"messages", "Ssend 8 B", ssend, 0, 2},
    {"messages", "Bsend 8 B", bsend, 0, 2},
    {"messages", "Probe, Get_count, Recv", probe, 0, 2},
    {"messages", "Iprobe until there, Recv", iprobe_recv, 0, 2},
    {"messages", "Mprobe, Mrecv 8 B", mprobe, 8, 2},
    {"messages", "Mprobe, Mrecv 64 KiB", mprobe, 1 << 16, 2},
    {"messages", "Improbe until there, Mrecv", improbe, 0, 2},
    {"messages", "Iprobe, nothing there", iprobe_none, 0, 1},
    {"messages", "Sendrecv 8 B", sendrecv, 0, 1},
    {"messages", "Sendrecv_replace 8 B", sendrecv_replace, 8, 1},
    {"messages", "Sendrecv_replace 1 MiB", sendrecv_replace, 1 << 20, 1},
    {"messages", "rate, 64 Isend and Irecv, statuses", rate_by_requests, 64, 64},
    {"messages", "rate, 64 Send and Recv", rate_by_calls, 64, 64},
    {"messages", "32 unexpected, received backwards", unexpected, 32, 32},
    {"derived types", "ping-pong of a vector of 64", pingpong_vector, 1, 2},
    {"derived types", "ping-pong of 10 structs", pingpong_struct, 10, 2},
    {"derived types", "ping-pong of 128 indexed blocks", pingpong_indexed, 1, 2},
    {0},
};
