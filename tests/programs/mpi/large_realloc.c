// SPDX-License-Identifier: Apache-2.0
// A block far above malloc's mmap threshold that grows by realloc (mremap) in every step and keeps
// what was in it over checkpoints.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  size_t longs = 1 << 17;
  long *block = malloc(longs * sizeof *block);
  for (size_t i = 0; i < longs; i++) block[i] = (long)i * 3 + rank;
  for (int step = 1; step <= o.steps; step++) {
    const size_t more = longs + (1 << 17) + 4096 * (size_t)step;
    report_step(step, o.step_ms);
    block = realloc(block, more * sizeof *block);
    CHECK(block != NULL);
    for (size_t i = longs; i < more; i++) block[i] = (long)i * 3 + rank;
    longs = more;
    for (size_t i = 0; i < longs; i += 509) CHECK(block[i] == (long)i * 3 + rank);
    long sum = 0, mine = block[longs / 2];
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    mix_int(sum);
  }
  free(block);
  finish();
  return 0;
}
