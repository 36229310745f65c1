// SPDX-License-Identifier: Apache-2.0
// Row: a lease on a file
// Refused: a lease on
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int made = open(own_path("leased"), O_WRONLY | O_CREAT, 0644);
  CHECK(made >= 0 && close(made) == 0);
  const int fd = open(own_path("leased"), O_RDONLY);
  CHECK(fd >= 0 && fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK);
    mix_int(step);
  }
  finish();
  return 0;
}
