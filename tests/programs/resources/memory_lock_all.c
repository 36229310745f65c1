// SPDX-License-Identifier: Apache-2.0
// Row: mlockall for what is there and for what comes, on fault and at once, and munlockall
#define _GNU_SOURCE
#include <sys/mman.h>

#include "../check.h"

#define BYTES ((size_t)64 << 10)

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

/// A mapping that the kernel cannot join with another: between closed pages.
static unsigned char *map(void) {
  unsigned char *p = mmap(NULL, BYTES + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED && mprotect(p + 4096, BYTES, PROT_READ | PROT_WRITE) == 0);
  return p + 4096;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 12, 0);
  const int loose = getenv("FERMATA_TEST_MAY_BE_UNLOCKED") != NULL;
  unsigned char *old = map();
  for (int step = 1; step <= o.steps; step++) {
    const int phase = step % 6;  // 1, 2: all, and all to come; 3, 4, 0: nothing; 5: what is there
    if (phase == 1) CHECK(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0 || loose);
    if (phase == 3 || phase == 0) CHECK(munlockall() == 0);
    if (phase == 5) CHECK(mlockall(MCL_CURRENT) == 0 || loose);
    memset(old, step + rank, BYTES);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    unsigned char *new = map();
    memset(new, step, BYTES);
    if (!loose || phase == 3 || phase == 4 || phase == 0) {
      CHECK(has_flag(old, " lo") == (phase == 1 || phase == 2 || phase == 5));
      CHECK(has_flag(new, " lo") == (phase == 1 || phase == 2));
      CHECK(has_flag(new, " lf") == (phase == 1 || phase == 2));
    }
    mix(old, 64);
    mix(new, 64);
    CHECK(munmap(new - 4096, BYTES + 8192) == 0);
  }
  finish();
}
