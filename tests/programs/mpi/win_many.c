// SPDX-License-Identifier: Apache-2.0
// Windows of every kind, made and freed again and again: what they take of the address space comes
// back. A few that are kept meanwhile have their contents.
#include "../check.h"

enum { kKept = 5, kRounds = 2, kEach = 4, kWords = 2000, kSlack = 12 };

static int mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  int lines = 0;
  for (int c; maps && (c = fgetc(maps)) != EOF;) lines += c == '\n';
  if (maps) fclose(maps);
  return lines;
}

static MPI_Win allocated(int **memory, int shared) {
  MPI_Win win;
  if (shared)
    MPI_Win_allocate_shared(kWords * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, memory, &win);
  else MPI_Win_allocate(kWords * 4, 4, MPI_INFO_NULL, MPI_COMM_WORLD, memory, &win);
  return win;
}

static void use(MPI_Win win, const int *memory, int value) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  const int mine = value + rank;
  MPI_Win_fence(0, win);
  MPI_Put(&mine, 1, MPI_INT, next, kWords - 1, 1, MPI_INT, win);
  MPI_Win_fence(0, win);
  CHECK(memory[kWords - 1] == value + previous);
}

static void make_and_free(int value) {
  static int own[kWords];
  int *memory;
  MPI_Win win;
  for (int shared = 0; shared < 2; shared++) {
    win = allocated(&memory, shared);
    use(win, memory, value);
    MPI_Win_free(&win);
  }
  MPI_Win_create(own, sizeof own, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  use(win, own, value);
  MPI_Win_free(&win);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_attach(win, own, sizeof own);
  MPI_Win_detach(win, own);
  MPI_Win_free(&win);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Win windows[kKept];
  int *memory[kKept];
  for (int k = 0; k < kKept; k++) windows[k] = allocated(&memory[k], k % 2);
  for (int step = 1; step <= o.steps; step++) {
    int least = 1 << 20;
    for (int round = 0; round < kRounds; round++) {
      make_and_free(step);  // what the first one leaves is the MPI's for good
      const int before = mappings();
      for (int i = 0; i < kEach; i++) make_and_free(1000 * step + i);
      const int more = mappings() - before;
      if (more < least) least = more;  // a restart, in between, is another process
    }
    CHECK(least <= kSlack);
    for (int k = 0; k < kKept; k++) use(windows[k], memory[k], step + 100 * k);
    report_step(step, o.step_ms);
  }
  for (int k = 0; k < kKept; k++) mix(&memory[k][kWords - 1], sizeof(int));
  for (int k = 0; k < kKept; k++) MPI_Win_free(&windows[k]);
  finish();
  return 0;
}
