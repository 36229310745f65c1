// SPDX-License-Identifier: Apache-2.0
// Row: memory locked with mlock stays locked, what was not stays free
#include <sys/mman.h>

#include "../check.h"

#define BYTES ((size_t)64 << 10)

/// True if the mapping that holds `address` is locked. (The line "Locked:" of smaps counts a page
/// that a child shares by half.)
static int is_locked(void *address) {
  char line[1024];
  unsigned long start = 0, end = 0;
  int locked = -1;
  FILE *maps = fopen("/proc/self/smaps", "r");
  CHECK(maps);
  while (locked < 0 && fgets(line, sizeof line, maps)) {
    unsigned long a, b;
    if (sscanf(line, "%lx-%lx ", &a, &b) == 2) start = a, end = b;
    if ((unsigned long)address >= start && (unsigned long)address < end &&
        !strncmp(line, "VmFlags:", 8))
      locked = strstr(line, " lo") != NULL;
  }
  fclose(maps);
  return locked;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  // A closed page on either side keeps the kernel from joining the mapping with others.
  unsigned char *arena = mmap(NULL, BYTES + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(arena != MAP_FAILED);
  unsigned char *key = arena + 4096;
  CHECK(mprotect(key, BYTES, PROT_READ | PROT_WRITE) == 0);
  for (int step = 1; step <= o.steps; step++) {
    memset(key, step + rank, BYTES);
    if (step % 4 == 1) CHECK(mlock(key, BYTES) == 0);
    if (step % 4 == 3) CHECK(munlock(key, BYTES) == 0);
    const int locked = step % 4 == 1 || step % 4 == 2;
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(is_locked(key) == locked);
    mix(key, 64);
  }
  finish();
}
