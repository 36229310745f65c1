// SPDX-License-Identifier: Apache-2.0
// Row: an open file that another one was renamed over: the old contents stay with the descriptor
// Killed: a file that it replaced after the checkpoint stays replaced
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char name[512], next[520];
  snprintf(name, sizeof name, "%s", own_path("config"));
  snprintf(next, sizeof next, "%s.new", name);
  const int first = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  const char old[] = "the first one";
  CHECK(first >= 0 && write(first, old, sizeof old) == sizeof old);
  int current = -1;  // what stood under the name before the last rename
  for (int step = 1; step <= o.steps; step++) {
    const int fresh = open(next, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fresh >= 0 && write(fresh, &step, sizeof step) == sizeof step);
    CHECK(rename(next, name) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    char text[sizeof old];
    int value = 0;
    CHECK(pread(first, text, sizeof text, 0) == sizeof text && !strcmp(text, old));
    CHECK(pread(fresh, &value, sizeof value, 0) == sizeof value && value == step);
    if (current >= 0) {
      CHECK(pread(current, &value, sizeof value, 0) == sizeof value && value == step - 1);
      CHECK(close(current) == 0);
    }
    const int by_name = open(name, O_RDONLY);
    CHECK(by_name >= 0 && read(by_name, &value, sizeof value) == sizeof value && value == step);
    CHECK(close(by_name) == 0);
    current = fresh;
    mix_int(value);
  }
  finish();
  return 0;
}
