// SPDX-License-Identifier: Apache-2.0
// Row: one file that all ranks map shared, with its descriptor closed
// And files of which each rank maps a part of its own, one with a name and one without.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

#define PAGE 4096
#define QUIET 12  // a part's second page is zero up to this step

// Each rank maps two pages of the file, its own.
static unsigned char *map_part(const char *path) {
  const int fd = open(path, O_RDWR | O_CREAT, 0644);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)ranks * 2 * PAGE) == 0);
  unsigned char *part =
      mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)rank * 2 * PAGE);
  CHECK(part != MAP_FAILED && close(fd) == 0);
  memset(part, 0, 2 * PAGE);
  return part;
}

static void part_step(unsigned char *part, int step) {
  const unsigned char first = (unsigned char)(step == 1 ? 0 : step - 1 + rank);
  const unsigned char second = (unsigned char)(step - 1 > QUIET ? step - 1 : 0);
  for (int i = 0; i < PAGE; i++) CHECK(part[i] == first && part[PAGE + i] == second);
  memset(part, step + rank, PAGE);
  if (step > QUIET) memset(part + PAGE, step, PAGE);
}

// Pages of a file without a name that are on the disk only, until they are looked at.
static unsigned char *map_evicted(const char *path) {
  const int fd = open(path, O_RDWR | O_CREAT, 0644);
  CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
  unsigned char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(p != MAP_FAILED && unlink(path) == 0);
  memset(p, 5, 2 * PAGE);
  CHECK(msync(p, 2 * PAGE, MS_SYNC) == 0 && madvise(p, 2 * PAGE, MADV_DONTNEED) == 0);
  CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 && close(fd) == 0);
  return p;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  char path[4096];
  snprintf(path, sizeof path, "%s/mapped.all", directory_option(argc, argv));
  const int fd = open(path, O_RDWR | O_CREAT, 0644);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && close(fd) == 0);
  snprintf(path, sizeof path, "%s/mapped.parts", directory_option(argc, argv));
  unsigned char *const named = map_part(path);
  snprintf(path, sizeof path, "%s/mapped.nameless", directory_option(argc, argv));
  unsigned char *const nameless = map_part(path);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(unlink(path) == 0);
  snprintf(path, sizeof path, "%s/mapped.evicted.%d", directory_option(argc, argv), rank);
  const unsigned char *const evicted = map_evicted(path);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= o.steps; step++) {
    part_step(named, step);
    part_step(nameless, step);
    shared_step(s, step, o, ranks);
  }
  for (int i = 0; i < 2 * PAGE; i++) CHECK(evicted[i] == 5);
  finish();
}
