// SPDX-License-Identifier: Apache-2.0
// Row: both ends of a pseudo terminal
// Refused: a pseudo terminal
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  CHECK(slave >= 0 && isatty(slave));
  char line[16];
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(write(master, "word\n", 5) == 5);
    CHECK(read(slave, line, sizeof line) == 5 && !memcmp(line, "word\n", 5));
    CHECK(read(master, line, sizeof line) > 0);  // the echo
    mix_int(step);
  }
  finish();
  return 0;
}
