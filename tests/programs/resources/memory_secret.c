// SPDX-License-Identifier: Apache-2.0
// Row: secret memory (memfd_secret) without its descriptor
// Refused: memory that cannot be read
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int fd = (int)syscall(SYS_memfd_secret, 0);
  CHECK(fd >= 0 && ftruncate(fd, 8192) == 0);
  char *const memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(memory != MAP_FAILED && close(fd) == 0);
  for (int step = 1; step <= o.steps; step++) {
    memory[4096] = (char)step;
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(memory[4096] == (char)step);
    mix_int(step);
  }
  finish();
  return 0;
}
