// SPDX-License-Identifier: Apache-2.0
// Row: POSIX shared memory that keeps its name and is opened again by it
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

static char name[64];

static struct shared *attach(void) {
  const int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && close(fd) == 0);
  return s;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int pid = (int)getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  snprintf(name, sizeof name, "/fermata-test-named.%d", pid);
  struct shared *s = attach();
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= o.steps; step++) {
    shared_step(s, step, o, ranks);
    if (step % 3 != rank % 3) continue;
    struct shared *again = attach();  // under its name there is still the same memory
    CHECK(again->ticks[rank] == s->ticks[rank]);
    CHECK(munmap(s, sizeof *s) == 0);
    s = again;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(shm_unlink(name) == 0);
  finish();
}
