// SPDX-License-Identifier: Apache-2.0
// Windows of one member, in a program of several threads: Open MPI gives them memory of the heap
// rather than shared memory, and refuses MPI_Win_create where threads may call MPI.
#include "../check.h"

enum { kWords = 700 };  // more than a page

static int *make(MPI_Win *win) {
  int *words = NULL;
  CHECK(MPI_Win_allocate(kWords * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &words,
                         win) == MPI_SUCCESS);
  memset(words, 0, kWords * sizeof(int));
  return words;
}

static void write_through(MPI_Win win, const int *words, int at, int value) {
  int got = -1;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
  MPI_Put(&value, 1, MPI_INT, 0, at, 1, MPI_INT, win);
  MPI_Win_flush(0, win);
  MPI_Accumulate(&value, 1, MPI_INT, 0, at, 1, MPI_INT, MPI_SUM, win);
  MPI_Win_flush(0, win);
  MPI_Get(&got, 1, MPI_INT, 0, at, 1, MPI_INT, win);
  MPI_Win_unlock(0, win);
  CHECK(got == 2 * value && words[at] == got);
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 10, 0);
  start_threads(&argc, &argv);
  MPI_Win kept, other;
  int *const words = make(&kept);
  for (int step = 1; step <= o.steps; step++) {
    int *const others = make(&other);
    write_through(kept, words, step * 17 % kWords, step + rank);
    write_through(other, others, kWords - step, step);
    report_step(step, o.step_ms);
    CHECK(others[kWords - step] == 2 * step);
    for (int before = 1; before <= step; before++)
      CHECK(words[before * 17 % kWords] == 2 * (before + rank));
    MPI_Win_free(&other);
    mix_int(words[step * 17 % kWords]);
  }
  MPI_Win_free(&kept);
  finish();
  return 0;
}
