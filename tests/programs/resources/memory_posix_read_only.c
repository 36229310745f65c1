// SPDX-License-Identifier: Apache-2.0
// Row: POSIX shared memory that rank 0 writes and the others can only read
// And one that all of them only read.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

static const unsigned char *map_constant(const char *name) {
  unsigned char page[4096];
  memset(page, 7, sizeof page);
  if (rank == 0) {
    const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0444);
    CHECK(fd >= 0 && write(fd, page, sizeof page) == (ssize_t)sizeof page && close(fd) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const int fd = shm_open(name, O_RDONLY, 0);
  const unsigned char *constant = mmap(NULL, sizeof page, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(fd >= 0 && constant != MAP_FAILED && close(fd) == 0);
  return constant;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int pid = (int)getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  char name[64];
  snprintf(name, sizeof name, "/fermata-test-read-only.%d", pid);
  int fd = -1;
  if (rank == 0) {
    CHECK((fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600)) >= 0);
    CHECK(ftruncate(fd, sizeof(struct shared)) == 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 0) CHECK((fd = shm_open(name, O_RDONLY, 0)) >= 0);
  const int prot = rank == 0 ? PROT_READ | PROT_WRITE : PROT_READ;
  struct shared *s = mmap(NULL, sizeof *s, prot, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && close(fd) == 0);
  char constant_name[64];
  snprintf(constant_name, sizeof constant_name, "/fermata-test-constant.%d", pid);
  const unsigned char *const constant = map_constant(constant_name);
  for (int step = 1; step <= o.steps; step++) {
    if (rank == 0) tick(s, o.step_ms);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(s->ticks[0] == (uint64_t)(step * TICKS));
    for (int i = 0; i < 4096; i++) CHECK(constant[i] == 7);
    mix(s->ticks, sizeof *s->ticks);
    report_step(step, 0);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank == 0) CHECK(shm_unlink(name) == 0 && shm_unlink(constant_name) == 0);
  finish();
}
