// SPDX-License-Identifier: Apache-2.0
// What MPI_Init_thread has promised stays true: the level and the main thread are the same after a
// restart under an MPI that might have promised something else.
#include "../check.h"

int main(int argc, char **argv) {
  int provided = -1, queried = -2, main_thread = 0;
  CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(provided >= MPI_THREAD_FUNNELED && provided <= MPI_THREAD_MULTIPLE);
  const struct options o = parse_options(argc, argv, 8, 0);
  for (int step = 1; step <= o.steps; step++) {
    report_step(step, o.step_ms);
    MPI_Query_thread(&queried);
    MPI_Is_thread_main(&main_thread);
    CHECK(queried == provided && main_thread);
    mix_int(step);
  }
  finish();
  return 0;
}
