// SPDX-License-Identifier: Apache-2.0
// One rank asks for an exclusive lock while the others poll with shared ones, each for a while, so
// that hardly a moment passes in which none of them holds it. With --beyond the exclusive lock must
// be given all the same (Open MPI's own lets the rank starve), and shared ones to a rank that a
// holder waits for, though the exclusive one is asked for.
#include "../check.h"

enum { kInts = 4, kMost = 400 };

// Locks `home` by all ranks of `readers` together.
static void meet(MPI_Win win, int home, MPI_Comm readers) {
  int place = 0;
  MPI_Comm_rank(readers, &place);
  if (place == 0) MPI_Win_lock(MPI_LOCK_SHARED, home, 0, win);
  MPI_Barrier(readers);
  pause_ms(10);  // the writer asks meanwhile
  if (place != 0) MPI_Win_lock(MPI_LOCK_SHARED, home, 0, win);
  MPI_Barrier(readers);
  MPI_Win_unlock(home, win);
}

static void poll(MPI_Win win, int home, int step, int beyond) {
  for (int seen = 0, polls = 0; seen != step && polls < kMost; polls++) {
    CHECK(!beyond || polls + 1 < kMost);
    MPI_Win_lock(MPI_LOCK_SHARED, home, 0, win);
    MPI_Get(&seen, 1, MPI_INT, home, 0, 1, MPI_INT, win);
    MPI_Win_flush(home, win);
    pause_ms(1);
    MPI_Win_unlock(home, win);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int *box = NULL, beyond = 0;
  beyond = has_option(argc, argv, "--beyond");
  MPI_Win win;
  MPI_Win_allocate(kInts * sizeof *box, sizeof *box, MPI_INFO_NULL, MPI_COMM_WORLD, &box, &win);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  box[0] = 0;
  MPI_Win_unlock(rank, win);
  for (int step = 1; step <= o.steps; step++) {
    const int writer = step % ranks, home = (step + 1) % ranks;
    MPI_Comm readers;
    MPI_Comm_split(MPI_COMM_WORLD, rank == writer, rank, &readers);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == writer) {
      pause_ms(3);
      MPI_Win_lock(MPI_LOCK_EXCLUSIVE, home, 0, win);
      MPI_Put(&step, 1, MPI_INT, home, 0, 1, MPI_INT, win);
      MPI_Win_unlock(home, win);
    } else {
      if (beyond) meet(win, home, readers);
      poll(win, home, step, beyond);
    }
    MPI_Comm_free(&readers);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  MPI_Win_free(&win);
  finish();
  return 0;
}
