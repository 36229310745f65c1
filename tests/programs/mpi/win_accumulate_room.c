// SPDX-License-Identifier: Apache-2.0
// Accumulations of 64 KiB, for which an MPI takes room for a moment each time. --beyond 1: none of
// many touches memory that was not there before; natively MPICH's malloc(3) gives that room back to
// the kernel after each one, unless the program has freed something larger before.
#include <sys/resource.h>

#include "../check.h"

enum { kNumbers = 8192, kRounds = 50, kAttempts = 40 };

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// A checkpoint makes a process touch its memory anew, so the quietest of many looks counts. Returns
// how often `one` was added.
static int add_often(const long *one, MPI_Win window, int beyond) {
  long fewest = kRounds;
  int attempt = 0;
  for (; attempt < kAttempts && (fewest >= kRounds || !attempt); attempt++) {
    const long before = faults();
    for (int i = 0; i < kRounds; i++) {
      MPI_Accumulate(one, kNumbers, MPI_LONG, 0, 0, kNumbers, MPI_LONG, MPI_SUM, window);
      MPI_Win_flush(0, window);
    }
    if (faults() - before < fewest) fewest = faults() - before;
  }
  CHECK(!beyond || fewest < kRounds);
  return attempt * kRounds;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  long *sums, *const one = malloc(kNumbers * sizeof *one);
  MPI_Win window;
  for (int i = 0; i < kNumbers; i++) one[i] = 1;
  MPI_Win_allocate_shared(rank ? 0 : (MPI_Aint)(kNumbers * sizeof *sums), sizeof *sums,
                          MPI_INFO_NULL, MPI_COMM_WORLD, &sums, &window);
  for (int step = 1; step <= o.steps; step++) {
    if (rank == 0) memset(sums, 0, kNumbers * sizeof *sums);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    report_step(step, o.step_ms);
    int mine = add_often(one, window, beyond), all = 0;
    MPI_Win_unlock_all(window);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < kNumbers; i++) CHECK(sums[i] == all);
    mix_int(step);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_free(&window);
  free(one);
  finish();
  return 0;
}
