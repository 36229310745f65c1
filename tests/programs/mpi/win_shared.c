// SPDX-License-Identifier: Apache-2.0
// A window of memory that the ranks share: loads and stores in each other's segments, one-sided
// calls on the same memory, segments of different sizes.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int *own = NULL, *theirs = NULL, *first = NULL, unit = 0, *flavor = NULL, flag = 0;
  MPI_Aint size = -1;
  MPI_Win win;
  MPI_Win_allocate_shared((MPI_Aint)(rank + 4) * 8, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                          &own, &win);
  MPI_Win_shared_query(win, next, &size, &unit, &theirs);
  CHECK(size == (next + 4) * 8 && unit == sizeof(int));
  MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &first);
  CHECK(size == 32 && own == first + (rank * 8 + rank * (rank - 1)));
  MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
  CHECK(flag && *flavor == MPI_WIN_FLAVOR_SHARED);
  for (int step = 1; step <= o.steps; step++) {
    const int value = 1000 * step + rank;
    MPI_Win_fence(0, win);
    theirs[0] = 100 * step + rank;
    MPI_Put(&value, 1, MPI_INT, next, 1, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    report_step(step, o.step_ms);
    CHECK(own[0] == 100 * step + previous && own[1] == 1000 * step + previous);
    MPI_Win_fence(0, win);
    mix(own, 2 * sizeof(int));
  }
  MPI_Win_free(&win);
  finish();
  return 0;
}
