// SPDX-License-Identifier: Apache-2.0
// Row: blocks of hundreds of megabytes, touched here and there
#include "../check.h"

#define BLOCKS 3
#define BLOCK_BYTES ((size_t)512 << 20)
#define STRIDE ((size_t)7 << 20)

static unsigned char *blocks[BLOCKS];

static unsigned char mark(int block, size_t at, int step) {
  return (unsigned char)(block * 41 + at / STRIDE * 3 + (size_t)step + (size_t)rank);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int b = 0; b < BLOCKS; b++) CHECK((blocks[b] = calloc(1, BLOCK_BYTES)) != NULL);
  for (int step = 1; step <= o.steps; step++) {
    for (int b = 0; b < BLOCKS; b++) {
      for (size_t at = 5; at < BLOCK_BYTES; at += STRIDE) {
        CHECK(blocks[b][at] == (step == 1 ? 0 : mark(b, at, step - 1)));
        CHECK(blocks[b][at + 4096] == 0);
        blocks[b][at] = mark(b, at, step);
      }
      mix(&blocks[b][5], 1);
    }
    if (step % 8 == 0) {  // one comes and goes
      free(blocks[1]);
      CHECK((blocks[1] = calloc(1, BLOCK_BYTES)) != NULL);
      for (size_t at = 5; at < BLOCK_BYTES; at += STRIDE) blocks[1][at] = mark(1, at, step);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
}
