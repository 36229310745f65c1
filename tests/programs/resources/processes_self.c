// SPDX-License-Identifier: Apache-2.0
// Row: the program's own name and path: /proc/self/exe, /proc/self/comm, program_invocation_name
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char name[16], path[PATH_MAX], real[PATH_MAX];
  CHECK(prctl(PR_GET_NAME, name) == 0 && !strncmp(name, program_invocation_short_name, 15));
  CHECK(realpath(argv[0], real));
  CHECK(prctl(PR_SET_NAME, "renamed") == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(bytes > 0);
    path[bytes] = 0;
    CHECK(!strcmp(path, real) && !strcmp((const char *)getauxval(AT_EXECFN), argv[0]));
    CHECK(readlink("/proc/self/exe", path, 3) == 3 && !memcmp(path, real, 3));
    CHECK(prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "renamed"));
    mix_int(step);
  }
  finish();
  return 0;
}
