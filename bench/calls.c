// SPDX-License-Identifier: Apache-2.0
// What one MPI call costs, on two ranks of one machine. Each case runs many small batches and
// reports a low percentile of them (the batches that nothing disturbed). Batches are short because
// the machine may be shared; the outer script interleaves whole runs.
//
// Where the two ranks run decides more than anything else, and a virtual machine moves them about:
// two threads of one core hand a cache line over in 40 ns, two cores in 100 to 200. So each batch
// begins with a measurement of that, and batches are reported by it: `name placement nanoseconds`.
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBatches = 1000, kLeastBatches = 50, kPercentile = 10, kBounces = 10 };
enum { kOneCore, kTwoCores, kPlacements };
static const char *const placements[kPlacements] = {"one core", "two cores"};
static const double kOneCoreBelowNs = 90;

static int rank;
static atomic_int *line;  // shared by both ranks
static int turn;          // the value of *line at which it is this rank's turn
static volatile int sink;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

// Maps `line`: a window's memory is shared, and used without MPI. Returns the window.
static MPI_Win share_line(void) {
  MPI_Win window;
  MPI_Aint bytes;
  int unit;
  void *base;
  MPI_Win_allocate_shared(rank == 0 ? 64 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
  MPI_Win_shared_query(window, 0, &bytes, &unit, &base);
  line = base;
  if (rank == 0) atomic_store(line, 0);
  turn = rank;
  MPI_Barrier(MPI_COMM_WORLD);
  return window;
}

// Where the ranks run now; both leave at about the same time.
static int placement(void) {
  const double began = now_ns();
  for (int i = 0; i < kBounces; i++, turn += 2) {
    while (atomic_load(line) != turn) {
    }
    atomic_store(line, turn + 1);
  }
  return (now_ns() - began) / kBounces / 2 < kOneCoreBelowNs ? kOneCore : kTwoCores;
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
  MPI_Win window = share_line();
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    static double batch[kPlacements][kBatches];
    int filled[kPlacements] = {0};
    cases[c].run(cases[c].calls);
    for (int i = 0; i < kBatches; i++) {
      const int where = placement();
      const double began = now_ns();
      cases[c].run(cases[c].calls);
      batch[where][filled[where]++] = (now_ns() - began) / cases[c].calls / cases[c].divisor;
    }
    for (int p = 0; rank == 0 && p < kPlacements; p++) {
      if (filled[p] < kLeastBatches) continue;
      qsort(batch[p], filled[p], sizeof **batch, ascending);
      printf("%s\t%s\t%.2f\n", cases[c].name, placements[p],
             batch[p][filled[p] * kPercentile / 100]);
    }
  }
  MPI_Win_free(&window);
  MPI_Finalize();
  return 0;
}
