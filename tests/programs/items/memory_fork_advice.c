// SPDX-License-Identifier: Apache-2.0
// Item: pages that children do not get (MADV_DONTFORK) or get empty (MADV_WIPEONFORK)
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

#define BYTES ((size_t)64 << 10)

static unsigned char *map(int advice) {
  unsigned char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  CHECK(madvise(p, BYTES, advice) == 0);
  return p;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *absent = map(MADV_DONTFORK), *wiped = map(MADV_WIPEONFORK);
  for (int step = 1; step <= o.steps; step++) {
    memset(absent, step + rank, BYTES);
    memset(wiped, step - rank, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (size_t at = 0; at < BYTES; at += 100) {
      CHECK(absent[at] == (unsigned char)(step + rank));
      CHECK(wiped[at] == (unsigned char)(step - rank));
    }
    if (step % 6 == 0) {  // the advice itself is still in force
      const pid_t child = fork();
      CHECK(child >= 0);
      if (child == 0)
        _exit(wiped[0] != 0 ? 1 : msync(absent, BYTES, MS_ASYNC) == 0 ? 2 : 0);
      int status = -1;
      CHECK(waitpid(child, &status, 0) == child);
      CHECK(status == 0);
    }
    mix(absent, 16);
  }
  finish();
}
