// SPDX-License-Identifier: Apache-2.0
// Row: /dev/null, zero, full and urandom
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
  const int full = open("/dev/full", O_RDWR), random = open("/dev/urandom", O_RDONLY);
  CHECK(null >= 0 && zero >= 0 && full >= 0 && random >= 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    long long value = step, noise[2] = {0, 0};
    CHECK(write(null, &value, sizeof value) == sizeof value);
    CHECK(write(full, &value, sizeof value) == -1 && errno == ENOSPC);
    CHECK(read(zero, &value, sizeof value) == sizeof value && value == 0);
    CHECK(read(random, noise, sizeof noise) == sizeof noise && noise[0] != noise[1]);
    mix_int(step);
  }
  finish();
  return 0;
}
