// SPDX-License-Identifier: Apache-2.0
// The body of the items about replacement allocators: threads that allocate, resize, pass on and
// free blocks of all sizes; every block's contents are checked before it goes.
#include <pthread.h>

#include "../check.h"

#define WORKERS 3
#define BLOCKS 200

struct block {
  unsigned char *data;
  size_t bytes;
  unsigned char fill;
};
static struct block blocks[WORKERS][BLOCKS];

static void check_block(const struct block *b) {
  for (size_t i = 0; i < b->bytes; i += b->bytes / 16 + 1)
    if (b->data[i] != b->fill) check_failed("a block kept its contents", __FILE__, __LINE__);
}

static void *churn(void *argument) {
  const uint64_t *seed = argument;
  struct block *mine = blocks[*seed % WORKERS];
  uint64_t x = *seed + 1;
  for (int i = 0; i < 400; i++) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    struct block *b = &mine[(x >> 20) % BLOCKS];
    if (b->data) check_block(b);
    b->bytes = (size_t)1 << ((x >> 40) % 18);
    b->bytes += (x >> 33) % b->bytes;
    b->data = x >> 63 ? realloc(b->data, b->bytes) : (free(b->data), malloc(b->bytes));
    b->fill = (unsigned char)(x >> 12);
    if (!b->data) check_failed("an allocation succeeded", __FILE__, __LINE__);
    memset(b->data, b->fill, b->bytes);
  }
  return NULL;
}

// `name` is a symbol that only the allocator in question has.
static int run(int argc, char **argv, const char *name, const void *symbol) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  if (!symbol) check_failed(name, __FILE__, __LINE__);
  for (int step = 1; step <= o.steps; step++) {
    pthread_t threads[WORKERS];
    uint64_t seeds[WORKERS];
    for (uint64_t i = 0; i < WORKERS; i++) {
      seeds[i] = (uint64_t)step * WORKERS + i;
      CHECK(pthread_create(&threads[i], NULL, churn, &seeds[i]) == 0);
    }
    for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int w = 0; w < WORKERS; w++)
      for (int i = 0; i < BLOCKS; i++)
        if (blocks[w][i].data) {
          check_block(&blocks[w][i]);
          mix(&blocks[w][i].fill, 1);
        }
  }
  finish();
  return 0;
}
