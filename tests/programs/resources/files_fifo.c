// SPDX-License-Identifier: Apache-2.0
// Row: a pipe with a name (mkfifo)
// Refused: a named pipe
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(mkfifo(own_path("fifo"), 0600) == 0);
  const int fd = open(own_path("fifo"), O_RDWR);
  CHECK(fd >= 0);
  for (int step = 1, got = 0; step <= o.steps; step++) {
    CHECK(write(fd, &step, sizeof step) == sizeof step);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(read(fd, &got, sizeof got) == sizeof got && got == step);
    mix_int(got);
  }
  finish();
  return 0;
}
