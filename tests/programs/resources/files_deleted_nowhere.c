// SPDX-License-Identifier: Apache-2.0
// Row: a scratch file that was deleted, and the directory it was in
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char name[600];
  CHECK(mkdir(own_path("scratch"), 0700) == 0);
  snprintf(name, sizeof name, "%s/file", own_path("scratch"));
  const int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0640);
  CHECK(fd >= 0 && unlink(name) == 0 && rmdir(own_path("scratch")) == 0);
  for (int step = 1; step <= o.steps; step++) {
    CHECK(write(fd, &step, sizeof step) == sizeof step);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    struct stat info;
    int value = 0;
    CHECK(fstat(fd, &info) == 0 && info.st_size == (off_t)(step * sizeof step));
    CHECK(info.st_nlink == 0 && (info.st_mode & 07777) == 0640);
    CHECK(pread(fd, &value, sizeof value, (off_t)((step - 1) * sizeof step)) == sizeof value);
    CHECK(value == step);
    mix_int(value);
  }
  finish();
  return 0;
}
