// SPDX-License-Identifier: Apache-2.0
// Item: one file that all ranks map shared, with its descriptor closed
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char path[4096];
  snprintf(path, sizeof path, "%s/mapped.all", directory_option(argc, argv));
  const int fd = open(path, O_RDWR | O_CREAT, 0644);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && close(fd) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= o.steps; step++) shared_step(s, step, o, ranks);
  finish();
}
