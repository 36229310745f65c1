// SPDX-License-Identifier: Apache-2.0
// Row: resource limits that the program has set itself
#include <sys/resource.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct rlimit core, files;
  CHECK(getrlimit(RLIMIT_CORE, &core) == 0 && getrlimit(RLIMIT_NOFILE, &files) == 0);
  core.rlim_cur = 0;
  files.rlim_cur = files.rlim_max = 987;
  CHECK(setrlimit(RLIMIT_CORE, &core) == 0 && setrlimit(RLIMIT_NOFILE, &files) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_cur == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 987 && now.rlim_max == 987);
    mix_int((long long)now.rlim_cur);
  }
  finish();
  return 0;
}
