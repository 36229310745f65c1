// SPDX-License-Identifier: Apache-2.0
// Row: the mask of permissions for new files
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  umask(0137);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    struct stat info;
    const int file = open(own_path("made"), O_WRONLY | O_CREAT | O_EXCL, 0777);
    CHECK(file >= 0 && fstat(file, &info) == 0 && (info.st_mode & 0777) == 0640);
    CHECK(close(file) == 0 && unlink(own_path("made")) == 0);
    mix_int(info.st_mode & 0777);
  }
  finish();
  return 0;
}
