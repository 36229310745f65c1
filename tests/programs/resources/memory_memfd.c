// SPDX-License-Identifier: Apache-2.0
// Row: a memfd: open, sealed, mapped shared and private, grown
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int fd = memfd_create("fermata test", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct shared)) == 0);
  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED);
  // A second one that is never mapped: its contents are in the descriptor alone.
  const int plain = memfd_create("never mapped", 0);
  CHECK(plain >= 0);
  size_t bytes = sizeof *s;
  for (int step = 1; step <= o.steps; step++) {
    shared_step(s, step, o, 1);
    uint64_t word = 0;
    CHECK(pread(fd, &word, 8, (off_t)offsetof(struct shared, words[rank][7])) == 8);
    CHECK(word == s->words[rank][7]);
    CHECK(fcntl(fd, F_GET_SEALS) == F_SEAL_SHRINK);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(ftruncate(fd, 4096) == -1);  // sealed
    bytes += 4096;
    CHECK(ftruncate(fd, (off_t)bytes) == 0);
    word = (uint64_t)step * 5;
    CHECK(write(plain, &word, 8) == 8);  // at its offset
    for (int past = 1; past <= step; past++) {
      CHECK(pread(plain, &word, 8, (past - 1) * 8) == 8);
      CHECK(word == (uint64_t)past * 5);
    }
    mix(&word, 8);
  }
  finish();
}
