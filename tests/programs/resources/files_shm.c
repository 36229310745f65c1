// SPDX-License-Identifier: Apache-2.0
// Row: a file in /dev/shm that is written and read, never mapped
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char name[64];
  snprintf(name, sizeof name, "/fermata-item-%d-%d", (int)getpid(), rank);
  const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(fd >= 0);
  for (int step = 1; step <= o.steps; step++) {
    CHECK(write(fd, &step, sizeof step) == sizeof step);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(lseek(fd, 0, SEEK_END) == (off_t)sizeof step * step);
    for (int past = 1, value; past <= step; past++) {
      CHECK(pread(fd, &value, sizeof value, (off_t)sizeof value * (past - 1)) == sizeof value);
      CHECK(value == past);
    }
    mix_int(step);
  }
  CHECK(shm_unlink(name) == 0);
  finish();
  return 0;
}
