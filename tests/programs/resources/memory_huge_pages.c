// SPDX-License-Identifier: Apache-2.0
// Row: transparent huge pages: advice is kept, contents and page table form do not matter
#include <sys/mman.h>

#include "../check.h"

#define HUGE ((size_t)2 << 20)
#define BYTES (HUGE * 8)

/// True if the mapping that begins at `start` has this VmFlag; -1 if it is not found.
static int has_flag(void *start, const char *flag) {
  char line[1024], head[32], name[16];
  snprintf(head, sizeof head, "%lx-", (unsigned long)start);
  snprintf(name, sizeof name, " %s", flag);
  FILE *maps = fopen("/proc/self/smaps", "r");
  CHECK(maps);
  int inside = 0, found = -1;
  while (found < 0 && fgets(line, sizeof line, maps)) {
    if (!inside) inside = !strncmp(line, head, strlen(head));
    else if (!strncmp(line, "VmFlags:", 8)) found = strstr(line, name) != NULL;
  }
  fclose(maps);
  return found;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  unsigned char *huge = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                             0);
  unsigned char *small = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                              0);
  CHECK(huge != MAP_FAILED && small != MAP_FAILED);
  CHECK(madvise(huge, BYTES, MADV_HUGEPAGE) == 0);
  CHECK(madvise(small, BYTES, MADV_NOHUGEPAGE) == 0);
  for (int step = 1; step <= o.steps; step++) {
    memset(huge + HUGE * (size_t)(step % 8), step + rank, HUGE / 2);
    memset(small + HUGE * (size_t)(step % 8), step - rank, 4096);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(has_flag(huge, "hg") == 1);
    CHECK(has_flag(small, "nh") == 1);
    mix(huge + HUGE * (size_t)(step % 8) + HUGE / 2 - 8, 16);
    mix(small + HUGE * (size_t)(step % 8), 8);
    if (step % 5 == 0) CHECK(madvise(huge, HUGE * 3, MADV_DONTNEED) == 0);
    mix(huge + HUGE * 2, 8);
  }
  finish();
}
