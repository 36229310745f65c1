// SPDX-License-Identifier: Apache-2.0
// Row: files opened with openat2 below a directory, and once more through /proc/self/fd
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "directory.h"

static int open_below(int place, const char *name, uint64_t flags) {
  struct open_how how = {.flags = flags, .mode = flags & O_CREAT ? 0644 : 0,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  return (int)syscall(SYS_openat2, place, name, &how, sizeof how);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(mkdir(own_path("place"), 0755) == 0);
  const int place = open(own_path("place"), O_PATH | O_DIRECTORY | O_CLOEXEC);
  CHECK(place >= 0);
  const int fd = open_below(place, "data", O_WRONLY | O_CREAT | O_APPEND);
  CHECK(fd >= 0);
  for (int step = 1, value = 0; step <= o.steps; step++) {
    CHECK(write(fd, &step, sizeof step) == sizeof step);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(open_below(place, "../data", O_RDONLY) == -1 && errno == EXDEV);
    char link[64], target[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    CHECK(readlink(link, target, sizeof target - 1) > 0 && strstr(target, "/data"));
    const int again = open(link, O_RDONLY);  // another description of the same file
    CHECK(again >= 0);
    CHECK(pread(again, &value, sizeof value, (off_t)sizeof value * (step - 1)) == sizeof value);
    CHECK(value == step && close(again) == 0);
    const int below = open_below(place, "data", O_RDONLY);
    CHECK(below >= 0 && lseek(below, 0, SEEK_END) == (off_t)sizeof value * step);
    CHECK(close(below) == 0);
    mix_int(value);
  }
  finish();
  return 0;
}
