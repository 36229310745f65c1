// SPDX-License-Identifier: Apache-2.0
// Row: files of /proc about the program itself, kept open
#include <fcntl.h>
#include <unistd.h>

#include "../check.h"

/// The kernel's number for this process, which a restart changes; getpid() stays.
static int own_number(void) {
  char text[16] = "";
  const int file = open("/proc/self/stat", O_RDONLY);
  CHECK(file >= 0 && pread(file, text, sizeof text - 1, 0) > 0 && close(file) == 0);
  return atoi(text);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int status = open("/proc/self/status", O_RDONLY), memory = open("/proc/meminfo", O_RDONLY);
  CHECK(status >= 0 && memory >= 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    char text[4096];
    const ssize_t bytes = pread(status, text, sizeof text - 1, 0);
    CHECK(bytes > 0);
    text[bytes] = 0;
    const char *pid = strstr(text, "\nPid:");
    CHECK(pid && atoi(pid + 5) == own_number());
    CHECK(pread(memory, text, 9, 0) == 9 && !memcmp(text, "MemTotal:", 9));
    mix_int(step);
  }
  finish();
  return 0;
}
