// SPDX-License-Identifier: Apache-2.0
// MPI_Wtime called all the time, by a program that does nothing else: a checkpoint in the middle of
// the call must not leave it with an address of the MPI library that is gone.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  for (int step = 1; step <= o.steps; step++) {
    report_step(step, 0);
    double last = MPI_Wtime();
    for (const double begin = last; last - begin < 1e-3 * o.step_ms;) {
      const double now = MPI_Wtime();
      CHECK(now >= last);
      last = now;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    mix_int(step);
  }
  finish();
  return 0;
}
