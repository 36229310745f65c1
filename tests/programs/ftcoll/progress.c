// SPDX-License-Identifier: Apache-2.0
// What the MPI has to do while a process waits in a call of a marked communicator: messages that
// the process has begun to send, and others' access to its window. Process 1 enters each call only
// when it has what process 0 sends it, or has put into its window, and process 0 is in the call
// then. Prints how long the longest round took.
#include <ftcoll_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRounds = 4, kBytes = 8 << 20, kMany = 500, kManyBytes = 4 << 10 };

static int rank;

static void expect(int is_right, const char *what) {
  if (is_right) return;
  fprintf(stderr, "rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void call(MPI_Comm marked, int kind) {
  int value = 1, size = 0;
  MPI_Comm_size(marked, &size);
  switch (kind) {
    case 0:
      MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, marked);
      expect(value == size, "an allreduce");
      break;
    case 1: MPI_Barrier(marked); break;
    case 2: MPI_Bcast(&value, 1, MPI_INT, 1, marked); break;
    default: MPI_Reduce(&rank, &value, 1, MPI_INT, MPI_SUM, 0, marked);
  }
}

static void one_large(MPI_Comm marked, char *data, int kind) {
  MPI_Request request;
  if (rank == 0) {
    memset(data, kind + 1, kBytes);
    MPI_Isend(data, kBytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
    call(marked, kind);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return;
  }
  if (rank == 1) MPI_Recv(data, kBytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) expect(data[0] == kind + 1 && data[kBytes - 1] == kind + 1, "a message");
  call(marked, kind);
}

static void many(MPI_Comm marked, char *data, int kind) {
  MPI_Request requests[kMany];
  for (int i = 0; i < kMany && rank == 0; ++i) {
    MPI_Isend(data + i * kManyBytes, kManyBytes, MPI_CHAR, 1, i, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < kMany && rank == 1; ++i) {
    MPI_Recv(data + i * kManyBytes, kManyBytes, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  call(marked, kind);
  if (rank == 0) MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
}

static void window(MPI_Comm marked, MPI_Win win, int kind) {
  if (rank == 1) {
    const int value = kind + 1;
    int got = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Accumulate(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_REPLACE, win);
    MPI_Win_unlock(0, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(&got, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    expect(got == value, "a window");
  }
  call(marked, kind);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm marked;
  MPI_Comm_dup(MPI_COMM_WORLD, &marked);
  if (ftc_mark(marked) != MPI_SUCCESS) return 2;
  char *const data = malloc(kBytes);
  int *memory;
  MPI_Win win;
  MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  double longest = 0;
  for (int round = 0; round < 3 * kRounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    switch (round / kRounds) {
      case 0: one_large(marked, data, round % kRounds); break;
      case 1: many(marked, data, round % kRounds); break;
      default: window(marked, win, round % kRounds);
    }
    const double took = MPI_Wtime() - began;
    if (argc > 1) fprintf(stderr, "rank %d round %d took %.6f\n", rank, round, took);
    if (took > longest) longest = took;
  }
  MPI_Win_free(&win);
  free(data);
  if (rank == 0) printf("the longest of %d rounds took %.3f s\n", 3 * kRounds, longest);
  MPI_Comm_free(&marked);
  MPI_Finalize();
  return 0;
}
