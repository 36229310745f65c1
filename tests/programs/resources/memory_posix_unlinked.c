// SPDX-License-Identifier: Apache-2.0
// Row: POSIX shared memory between the ranks of a host, its name unlinked once all have it
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int pid = (int)getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  char name[64];
  snprintf(name, sizeof name, "/fermata-test-unlinked.%d", pid);
  int fd = -1;
  if (rank == 0) {
    fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) fd = shm_open(name, O_RDWR, 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(fd >= 0 && s != MAP_FAILED && close(fd) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(shm_unlink(name) == 0);
  for (int step = 1; step <= o.steps; step++) shared_step(s, step, o, ranks);
  finish();
}
