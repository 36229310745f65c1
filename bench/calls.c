// SPDX-License-Identifier: Apache-2.0
// What one MPI call costs, on two ranks of one machine. Each case runs many small batches and
// reports a low percentile of them (the batches that nothing disturbed): `name nanoseconds`.
// Batches are short because the machine may be shared; the outer script interleaves whole runs.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 400, kPercentile = 10 };

static int rank;
static volatile int sink;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void comm_rank(int n) {
  int r = 0;
  for (int i = 0; i < n; i++) {
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    sink = r;
  }
}

static void pingpong(int n) {
  static char buffer[8];
  for (int i = 0; i < n; i++) {
    if (rank == 0) {
      MPI_Send(buffer, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(buffer, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(buffer, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(buffer, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
  }
}

static void exchange(int n) {
  static char in[8], out[8];
  const int peer = rank ^ 1;
  for (int i = 0; i < n; i++) {
    MPI_Request list[2];
    MPI_Irecv(in, 8, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &list[0]);
    MPI_Isend(out, 8, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &list[1]);
    MPI_Waitall(2, list, MPI_STATUSES_IGNORE);
  }
}

static void allreduce(int n) {
  int value = 1, sum;
  for (int i = 0; i < n; i++) MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast(int n) {
  static int value;
  for (int i = 0; i < n; i++) MPI_Bcast(&value, 1, MPI_INT, i & 1, MPI_COMM_WORLD);
}

static void barrier(int n) {
  for (int i = 0; i < n; i++) MPI_Barrier(MPI_COMM_WORLD);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static const struct {
  const char *name;
  void (*run)(int);
  int calls;       // per batch
  double divisor;  // what one iteration counts as: a ping-pong is two messages
} cases[] = {
    {"Comm_rank", comm_rank, 2000, 1},     {"ping-pong 8 B, half round", pingpong, 100, 2},
    {"Irecv+Isend+Waitall 8 B", exchange, 100, 1}, {"Allreduce 4 B", allreduce, 100, 1},
    {"Bcast 4 B", bcast, 100, 1},          {"Barrier", barrier, 100, 1},
};

int main(int argc, char **argv) {
  int size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) {
    fprintf(stderr, "calls: run me on two ranks\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    static double batch[kBatches];
    cases[c].run(cases[c].calls);
    for (int i = 0; i < kBatches; i++) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double began = now_ns();
      cases[c].run(cases[c].calls);
      batch[i] = (now_ns() - began) / cases[c].calls / cases[c].divisor;
    }
    qsort(batch, kBatches, sizeof *batch, ascending);
    if (rank == 0) printf("%s\t%.2f\n", cases[c].name, batch[kBatches * kPercentile / 100]);
  }
  MPI_Finalize();
  return 0;
}
