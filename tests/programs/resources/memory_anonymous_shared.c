// SPDX-License-Identifier: Apache-2.0
// Row: anonymous shared memory, mapped twice, seen by children
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_shared.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                          0);
  CHECK(s != MAP_FAILED);
  // An old size of zero makes a second mapping of the same memory: mremap(2).
  struct shared *twin = mremap(s, 0, sizeof *s, MREMAP_MAYMOVE);
  CHECK(twin != MAP_FAILED && twin != s);
  for (int step = 1; step <= o.steps; step++) {
    shared_step(step % 2 ? s : twin, step, o, 1);
    CHECK(memcmp(s->words[rank], twin->words[rank], sizeof s->words[rank]) == 0);
    s->words[63][0] = (uint64_t)step;
    CHECK(((volatile struct shared *)twin)->words[63][0] == (uint64_t)step);
    if (step % 5 == 0) {
      const pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0) {
        twin->words[62][0] = (uint64_t)step * 3;
        _exit(0);
      }
      int status = -1;
      CHECK(waitpid(child, &status, 0) == child && status == 0);
      CHECK(((volatile struct shared *)s)->words[62][0] == (uint64_t)step * 3);
    }
  }
  finish();
}
