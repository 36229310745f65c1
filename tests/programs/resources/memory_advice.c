// SPDX-License-Identifier: Apache-2.0
// Row: advice on memory is kept part by part: not dumped, read at random, read in sequence
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../check.h"

#define PART ((size_t)64 << 10)
static const struct {
  int advice;
  const char *flag;
} parts[] = {{MADV_DONTDUMP, " dd"}, {MADV_RANDOM, " rr"}, {MADV_SEQUENTIAL, " sr"}};
enum { kParts = sizeof parts / sizeof *parts };

/// True if the mapping that holds `address` has this VmFlag.
static int has_flag(void *address, const char *flag) {
  char line[1024];
  unsigned long start = 0, end = 0, a, b;
  int found = -1;
  FILE *maps = fopen("/proc/self/smaps", "r");
  CHECK(maps);
  while (found < 0 && fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx ", &a, &b) == 2) start = a, end = b;
    if ((unsigned long)address >= start && (unsigned long)address < end &&
        !strncmp(line, "VmFlags:", 8))
      found = strstr(line, flag) != NULL;
  }
  fclose(maps);
  return found;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *block =
      mmap(NULL, PART * (kParts + 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(block != MAP_FAILED);
  for (int i = 0; i < kParts; i++)
    CHECK(madvise(block + PART * (size_t)i, PART, parts[i].advice) == 0);
  for (int step = 1; step <= o.steps; step++) {
    const int dumped = step % 4 > 1;  // the first part's advice is taken back now and then
    CHECK(madvise(block, PART, dumped ? MADV_DODUMP : MADV_DONTDUMP) == 0);
    memset(block, step + rank, PART * (kParts + 1));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int part = 0; part <= kParts; part++)
      for (int i = 0; i < kParts; i++)
        CHECK(has_flag(block + PART * (size_t)part, parts[i].flag) ==
              (part == i && !(i == 0 && dumped)));
    mix(block + PART * (size_t)(step % kParts), 64);
  }
  finish();
}
