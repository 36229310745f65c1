// SPDX-License-Identifier: Apache-2.0
// One-sided windows with a single member, of every flavour, with what they hold.
//
// --beyond 1: a window over memory of the program, which Open MPI 4.1 as Debian configures it does
// not make natively.
#include "../check.h"

enum { kNumbers = 8 };

static void use(MPI_Win win, MPI_Aint at, int unit, int step) {
  int got = -1;
  const int put = 100 * step + rank, add = 7;
  MPI_Win_fence(0, win);
  MPI_Put(&put, 1, MPI_INT, 0, at + (step % kNumbers) * unit, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  MPI_Accumulate(&add, 1, MPI_INT, 0, at + (step % kNumbers) * unit, 1, MPI_INT, MPI_SUM, win);
  MPI_Win_fence(0, win);
  MPI_Get(&got, 1, MPI_INT, 0, at + (step % kNumbers) * unit, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  CHECK(got == put + add);
  mix_int(got);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int beyond = 0, own[kNumbers] = {0}, *memory, *shared;
  beyond = has_option(argc, argv, "--beyond");
  MPI_Win allocated, created, common;
  MPI_Win_allocate(sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &memory, &allocated);
  MPI_Win_allocate_shared(sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &shared, &common);
  if (beyond)
    MPI_Win_create(own, sizeof own, sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &created);
  for (int step = 1; step <= o.steps; step++) {
    report_step(step, o.step_ms);
    use(allocated, 0, 1, step);
    if (beyond) use(created, 0, 1, step);
    else mix_int(100 * step + rank + 7);
    shared[step % kNumbers] = step;
    use(common, 0, 1, step);
    CHECK(memory[step % kNumbers] == 100 * step + rank + 7);
    CHECK(shared[step % kNumbers] == 100 * step + rank + 7);
    CHECK(!beyond || own[step % kNumbers] == 100 * step + rank + 7);
  }
  if (beyond) MPI_Win_free(&created);
  MPI_Win_free(&allocated);
  MPI_Win_free(&common);
  finish();
  return 0;
}
