// SPDX-License-Identifier: Apache-2.0
// Row: memory mapped at a fixed address that other programs of the process live near
// Refused: outside the addresses that can be saved
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../check.h"

#define PLACE ((void *)0x510000000000)
#define BYTES ((size_t)1 << 20)

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *p = mmap(PLACE, BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  CHECK(p == PLACE);
  for (int i = 1; i <= 300; i++) {  // it is not forgotten over those that came and went
    void *other = (char *)PLACE + (size_t)i * BYTES * 2;
    CHECK(mmap(other, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
          other);
    CHECK(munmap(other, BYTES) == 0);
  }
  for (int step = 1; step <= o.steps; step++) {
    memset(p, step, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix(p, 16);
  }
  finish();
}
