// SPDX-License-Identifier: Apache-2.0
// A window that is never freed. MPI forbids it, but natively no MPI minds where the window needs
// nothing but shared memory, so programs do it: MPI_Finalize ends well.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int *own = NULL;
  MPI_Win win;
  MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Win_fence(0, win);
    own[(rank + 1) % ranks - rank] = 10 * step + rank;
    MPI_Win_fence(0, win);
    report_step(step, o.step_ms);
    CHECK(*own == 10 * step + (rank + ranks - 1) % ranks);
    mix(own, sizeof(int));
  }
  finish();
  return 0;
}
