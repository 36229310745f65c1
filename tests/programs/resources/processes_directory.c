// SPDX-License-Identifier: Apache-2.0
// Row: the working directory, changed in every step
// Killed: a directory that it made after the checkpoint is still there
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(mkdir(own_path("work"), 0755) == 0 && chdir(own_path("work")) == 0);
  char top[PATH_MAX], here[PATH_MAX];
  CHECK(getcwd(top, sizeof top));
  for (int step = 1; step <= o.steps; step++) {
    char name[16];
    snprintf(name, sizeof name, "d%d", step);
    CHECK(mkdir(name, 0755) == 0 && chdir(name) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(getcwd(here, sizeof here) && !strcmp(strrchr(here, '/') + 1, name));
    mix(name, strlen(name));
    if (step % 3 == 0) CHECK(chdir(top) == 0);
  }
  finish();
  return 0;
}
