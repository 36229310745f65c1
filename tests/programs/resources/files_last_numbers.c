// SPDX-License-Identifier: Apache-2.0
// Row: descriptors with all of the last numbers below a limit of 1024, one mapped shared memory
#define _GNU_SOURCE
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory_shared.h"

enum { LAST = 1023, FIRST = 700, LOW = 60 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int counter = eventfd(0, EFD_NONBLOCK), memory = memfd_create("fermata test", 0);
  CHECK(counter >= 0 && memory >= 0 && ftruncate(memory, sizeof(struct shared)) == 0);
  CHECK(dup2(counter, LAST) == LAST && dup2(memory, LAST - 1) == LAST - 1);
  for (int fd = FIRST; fd < LAST - 1; fd++) CHECK(dup2(counter, fd) == fd);
  CHECK(close(counter) == 0 && close(memory) == 0);
  int low[LOW];
  for (int i = 0; i < LOW; i++) CHECK((low[i] = eventfd((unsigned)i, EFD_NONBLOCK)) >= 0);
  struct shared *s =
      mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, LAST - 1, 0);
  CHECK(s != MAP_FAILED);
  for (int step = 1; step <= o.steps; step++) {
    uint64_t value = (uint64_t)step;
    CHECK(write(LAST, &value, 8) == 8);
    shared_step(s, step, o, 1);
    CHECK(read(LAST, &value, 8) == 8 && value == (uint64_t)step);
    for (int i = 1; i < LOW; i++) {
      CHECK(read(low[i], &value, 8) == 8 && value == (uint64_t)i);
      CHECK(write(low[i], &value, 8) == 8);
    }
    CHECK(pread(LAST - 1, &value, 8, (off_t)offsetof(struct shared, words[rank][7])) == 8);
    CHECK(value == s->words[rank][7]);
    mix(&value, 8);
  }
  finish();
  return 0;
}
