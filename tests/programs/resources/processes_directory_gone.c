// SPDX-License-Identifier: Apache-2.0
// Row: a working directory that was removed
// Refused: the working directory is no longer found
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(mkdir(own_path("work"), 0700) == 0 && chdir(own_path("work")) == 0);
  CHECK(rmdir(own_path("work")) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  finish();
  return 0;
}
