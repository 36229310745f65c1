// SPDX-License-Identifier: Apache-2.0
// Row: files of /proc about the process itself
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"

// The number a file of /proc begins with, from its first byte.
static long first_number(int fd) {
  char text[64] = "";
  CHECK(pread(fd, text, sizeof text - 1, 0) > 0);
  return strtol(text, NULL, 10);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char name[64];
  snprintf(name, sizeof name, "/proc/%d/task/%d/stat", getpid(), getpid());
  const int process = open("/proc/self/stat", O_RDONLY), task = open(name, O_RDONLY);
  const int folder = open("/proc/self", O_RDONLY | O_DIRECTORY);
  const int machine = open("/proc/stat", O_RDONLY);
  CHECK(process >= 0 && task >= 0 && folder >= 0 && machine >= 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    // Each is about the process that runs now, and has the kernel's number of it.
    const int fresh = open("/proc/self/stat", O_RDONLY), number = first_number(fresh);
    CHECK(close(fresh) == 0);
    CHECK(first_number(process) == number && first_number(task) == number);
    const int own = openat(folder, "stat", O_RDONLY);
    CHECK(own >= 0 && first_number(own) == number);
    CHECK(close(own) == 0);
    char text[4];
    CHECK(pread(machine, text, 3, 0) == 3 && text[0] == 'c' && text[1] == 'p');
    mix_int(step);
  }
  finish();
  return 0;
}
