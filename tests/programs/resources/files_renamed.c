// SPDX-License-Identifier: Apache-2.0
// Row: a file renamed while it is open, in every step
// Killed: a file that it renamed after the checkpoint stays renamed
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char name[512], next[512];
  snprintf(name, sizeof name, "%s.0", own_path("data"));
  const int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  CHECK(file >= 0);
  for (int step = 1; step <= o.steps; step++) {
    CHECK(write(file, &step, sizeof step) == sizeof step);
    snprintf(next, sizeof next, "%s.%d", own_path("data"), step);
    CHECK(rename(name, next) == 0);
    strcpy(name, next);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  const int again = open(name, O_RDONLY);
  CHECK(again >= 0);
  for (int step = 1, value; step <= o.steps; step++) {
    CHECK(read(again, &value, sizeof value) == sizeof value && value == step);
    mix_int(value);
  }
  finish();
  return 0;
}
