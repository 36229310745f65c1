// SPDX-License-Identifier: Apache-2.0
// Row: pages of the huge page pool (MAP_HUGETLB), or ordinary ones where the pool is empty
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../check.h"

#define BYTES ((size_t)4 << 20)

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (p == MAP_FAILED)
    p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  for (int step = 1; step <= o.steps; step++) {
    for (size_t at = 0; at < BYTES; at += 4096) {
      CHECK(p[at] == (step == 1 ? 0 : (unsigned char)(step - 1 + (int)(at >> 12) + rank)));
      p[at] = (unsigned char)(step + (int)(at >> 12) + rank);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix(p + 4096, 1);
  }
  finish();
}
