// SPDX-License-Identifier: Apache-2.0
// Passive target: a counter under an exclusive lock that is held over the checkpoint by one rank
// while the others ask for it, shared locks, and a lock on all with flushes.
#include "../check.h"

enum { kCounter, kShared, kSlots = 2, kRoom = 40 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  long *box = NULL;
  MPI_Win win;
  MPI_Win_allocate(kRoom * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &box, &win);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  for (int i = 0; i < kRoom; i++) box[i] = 0;
  MPI_Win_unlock(rank, win);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int step = 1; step <= o.steps; step++) {
    long value = -1, theirs = -1;
    const int holder = step % ranks;
    say_step(step);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Get(&value, 1, MPI_LONG, 0, kCounter, 1, MPI_LONG, win);
    MPI_Win_flush(0, win);
    if (rank == holder) pause_ms(o.step_ms);
    value++;
    MPI_Put(&value, 1, MPI_LONG, 0, kCounter, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    CHECK(value > (step - 1) * ranks && value <= step * ranks);

    const long mine = 1000 * step + rank;
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Put(&mine, 1, MPI_LONG, next, kShared, 1, MPI_LONG, win);
    if (step % 2) pause_ms(o.step_ms / 2);
    MPI_Win_flush_local(next, win);
    MPI_Win_unlock(next, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK(box[kShared] == 1000 * step + previous);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);

    MPI_Win_lock_all(0, win);
    for (int r = 0; r < ranks; r++)
      MPI_Put(&mine, 1, MPI_LONG, r, kSlots + rank, 1, MPI_LONG, win);
    MPI_Win_flush_local_all(win);
    MPI_Win_flush_all(win);
    pause_ms(o.step_ms / 2);
    hold_step(step);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Get(&theirs, 1, MPI_LONG, next, kSlots + previous, 1, MPI_LONG, win);
    MPI_Win_unlock_all(win);
    CHECK(theirs == 1000 * step + previous);
    MPI_Barrier(MPI_COMM_WORLD);
    mix_int(theirs);
  }
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  long total = -1;
  MPI_Get(&total, 1, MPI_LONG, 0, kCounter, 1, MPI_LONG, win);
  MPI_Win_unlock(0, win);
  CHECK(total == (long)o.steps * ranks);
  MPI_Win_free(&win);
  finish();
  return 0;
}
