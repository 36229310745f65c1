// SPDX-License-Identifier: Apache-2.0
// A rank that exposes a window to itself as well: MPI_Win_test says no until its own
// MPI_Win_complete, which is one of those it waits for. (--beyond; MPICH 4.0 says
// yes before, and continues before the others' puts are there.)
#include "../check.h"

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 4, 0);
  start(&argc, &argv);
  int value = -1, flag, beyond = 0;
  beyond = has_option(argc, argv, "--beyond");
  MPI_Win win;
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Win_create(&value, sizeof value, sizeof value, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Win_post(world, 0, win);
    MPI_Win_start(world, 0, win);
    const int mine = 100 * step + rank;
    MPI_Put(&mine, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, win);
    for (int i = 0; beyond && i < 20; i++) {
      CHECK(MPI_Win_test(win, &flag) == MPI_SUCCESS);
      CHECK(!flag);
    }
    report_step(step, o.step_ms);
    MPI_Win_complete(win);
    if (!beyond) MPI_Win_wait(win);
    for (flag = !beyond; !flag;) CHECK(MPI_Win_test(win, &flag) == MPI_SUCCESS);
    const int expected = 100 * step + (rank + ranks - 1) % ranks;
    CHECK(!beyond || value == expected);
    mix_int(expected);
  }
  MPI_Win_free(&win);
  MPI_Group_free(&world);
  finish();
  return 0;
}
