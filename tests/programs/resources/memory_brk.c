// SPDX-License-Identifier: Apache-2.0
// Row: a program that grows and shrinks its heap with sbrk, beside malloc
#define _GNU_SOURCE
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    const size_t bytes = (size_t)(step % 7 + 1) * 100000;
    unsigned char *mine = sbrk((intptr_t)bytes);
    CHECK(mine != (void *)-1);
    CHECK(mine[0] == 0 && mine[bytes - 1] == 0);  // fresh pages, also where old ones were
    memset(mine, step + rank, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (size_t at = 0; at < bytes; at += 777) CHECK(mine[at] == (unsigned char)(step + rank));
    mix(mine, 64);
    unsigned char *block = malloc(100000);
    CHECK(block);
    memset(block, step, 100000);
    mix(block, 64);
    if (sbrk(0) == mine + bytes) {  // malloc has not taken what lies above
      memset(mine, 0, bytes);       // brk zeroes only whole pages that it gives back
      CHECK(sbrk(-(intptr_t)bytes) != (void *)-1);
    }
    free(block);
  }
  finish();
}
