// SPDX-License-Identifier: Apache-2.0
// Row: a large block that realloc moves with mremap, and mappings grown, shrunk and moved by hand
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../check.h"

#define PAGE 4096
#define FIRST_BYTES ((size_t)8 << 20)

static uint64_t value_at(size_t i) { return (i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)rank; }

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  size_t bytes = FIRST_BYTES, pages = 16;
  uint64_t *block = malloc(bytes);
  CHECK(block);
  for (size_t i = 0; i < bytes / 8; i++) block[i] = value_at(i);
  unsigned char *window = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(window != MAP_FAILED);
  for (size_t p = 0; p < pages; p++) window[p * PAGE] = (unsigned char)(p + 1);
  for (int step = 1; step <= o.steps; step++) {
    const size_t grown = bytes + ((size_t)1 << 20);
    CHECK((block = realloc(block, grown)) != NULL);
    for (size_t i = bytes / 8; i < grown / 8; i++) block[i] = value_at(i);
    bytes = grown;
    for (size_t i = 0; i < bytes / 8; i += 509) CHECK(block[i] == value_at(i));
    mix(&block[bytes / 8 - 1], 8);

    // Grow, check that what is new is zero, move to a place of our choice, shrink.
    const size_t wanted = 16 + (size_t)(step * 5 % 11);
    window = mremap(window, pages * PAGE, wanted * PAGE, MREMAP_MAYMOVE);
    CHECK(window != MAP_FAILED);
    for (size_t p = 0; p < wanted; p++) CHECK(window[p * PAGE] == (p < 16 ? p + 1 : 0));
    pages = wanted;
    void *place = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED);
    CHECK(mremap(window, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) ==
          place);
    window = place;
    mix(window, PAGE);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  free(block);
  finish();
}
