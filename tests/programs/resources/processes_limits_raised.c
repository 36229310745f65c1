// SPDX-License-Identifier: Apache-2.0
// Row: a limit of open files that the program has raised, and a descriptor above the old
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct rlimit files, now;
  CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > 1500);
  const int first = eventfd(0, 0), high = dup2(first, 1500);
  CHECK(first >= 0 && high == 1500);
  for (int step = 1; step <= o.steps; step++) {
    uint64_t value = (uint64_t)step;
    CHECK(write(high, &value, 8) == 8);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(read(first, &value, 8) == 8 && value == (uint64_t)step);
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == files.rlim_cur);
    mix_int(step);
  }
  finish();
  return 0;
}
