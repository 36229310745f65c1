// SPDX-License-Identifier: Apache-2.0
// Row: 64 GB of reserved but untouched address space, used a little at a time
#include <sys/mman.h>

#include "../check.h"

#define BYTES ((size_t)64 << 30)
#define PART (BYTES / 64)

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *closed = mmap(NULL, BYTES, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  unsigned char *open = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(closed != MAP_FAILED && open != MAP_FAILED);
  for (int step = 1; step <= o.steps; step++) {
    const size_t at = PART * (size_t)(step % 64);
    CHECK(mprotect(closed + at, 4096, PROT_READ | PROT_WRITE) == 0);
    closed[at] = open[at + PART - 1] = (unsigned char)(step + rank);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int past = step > 63 ? step - 63 : 1; past <= step; past++) {
      const size_t where = PART * (size_t)(past % 64);
      CHECK(closed[where] == (unsigned char)(past + rank));
      CHECK(open[where + PART - 1] == (unsigned char)(past + rank));
      CHECK(open[where + PART / 2] == 0);
    }
    mix(closed + at, 1);
  }
  finish();
}
