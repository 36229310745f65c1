// SPDX-License-Identifier: Apache-2.0
// Row: pages moved away with MREMAP_DONTUNMAP, as garbage collectors do
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../check.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#define BYTES ((size_t)1 << 20)

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *from = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                             0);
  CHECK(from != MAP_FAILED);
  for (int step = 1; step <= o.steps; step++) {
    memset(from, step + rank, BYTES);
    unsigned char *to = mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(to != MAP_FAILED && to != from);
    for (size_t at = 0; at < BYTES; at += 1000) CHECK(to[at] == (unsigned char)(step + rank));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (size_t at = 0; at < BYTES; at += 1000) {
      CHECK(from[at] == 0);
      CHECK(to[at] == (unsigned char)(step + rank));
    }
    mix(to, 16);
    CHECK(munmap(to, BYTES) == 0);
  }
  finish();
}
