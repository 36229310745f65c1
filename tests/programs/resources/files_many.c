// SPDX-License-Identifier: Apache-2.0
// Row: more than five hundred open descriptors, with numbers that the next MPI library would take
#include <sys/eventfd.h>
#include <unistd.h>

#include "../check.h"

enum { MANY = 700 };

int main(int argc, char **argv) {
  static int fds[MANY];
  for (int i = 0; i < MANY; i++) fds[i] = eventfd(0, EFD_NONBLOCK);
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int i = 0; i < MANY; i++) CHECK(fds[i] >= 0);
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < MANY; i++) {
      const uint64_t value = (uint64_t)(step + i);
      CHECK(write(fds[i], &value, 8) == 8);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int i = 0; i < MANY; i++) {
      uint64_t value;
      CHECK(read(fds[i], &value, 8) == 8 && value == (uint64_t)(step + i));
    }
    mix_int(step);
  }
  finish();
  return 0;
}
