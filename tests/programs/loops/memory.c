// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "loops.h"

static void allocating(struct worker *w) {
  unsigned char *held[16] = {0};
  for (unsigned i = 0; i < 64; i++) {
    unsigned char **const place = &held[i % 16];
    if (*place) EXPECT((*place)[0] == (unsigned char)(i - 16) && (*place)[15] == w->id);
    free(*place);
    const size_t bytes = 16 + (i * 7919 + w->turn) % 3000 + (i % 13 == 0) * 200000;
    *place = malloc(bytes);
    EXPECT(*place != NULL);
    (*place)[0] = (unsigned char)i;
    (*place)[15] = (unsigned char)w->id;
  }
  for (unsigned i = 0; i < 16; i++) free(held[i]);
}

static void *map(size_t bytes) {
  const int private = MAP_PRIVATE | MAP_ANONYMOUS;
  void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, private, -1, 0);
  EXPECT(memory != MAP_FAILED);
  return memory;
}

static void mapping(struct worker *w) {
  for (int i = 0; i < 10; i++) {
    const size_t bytes = 4096 * (size_t)(1 + i % 5);
    uint64_t *const memory = map(bytes);
    memory[0] = w->turn;
    memory[bytes / 8 - 1] = (uint64_t)i;
    EXPECT(mprotect(memory, bytes, PROT_READ) == 0);
    EXPECT(memory[0] == w->turn && memory[bytes / 8 - 1] == (uint64_t)i);
    EXPECT(munmap(memory, bytes) == 0);
  }
}

static void moving(struct worker *w) {
  for (int i = 0; i < 10; i++) {
    uint64_t *memory = map(8192);
    memory[0] = w->turn;
    memory[1023] = (uint64_t)i;
    memory = mremap(memory, 8192, 65536, MREMAP_MAYMOVE);
    EXPECT(memory != MAP_FAILED && memory[0] == w->turn && memory[1023] == (uint64_t)i);
    memory[8191] = 77;
    memory = mremap(memory, 65536, 4096, 0);
    EXPECT(memory != MAP_FAILED && memory[0] == w->turn);
    EXPECT(munmap(memory, 4096) == 0);
  }
}

const struct loop memory_loops[] = {
    {"malloc", allocating, NULL, NULL, 2, 0},
    {"mmap", mapping, NULL, NULL, 2, 0},
    {"mremap", moving, NULL, NULL, 2, 0},
    {NULL, NULL, NULL, NULL, 0, 0},
};
