// SPDX-License-Identifier: Apache-2.0
// Whoever waits for a lock of a window has a message that it receives later only: its MPI must
// answer the holder's one-sided calls all the same.
#include "../check.h"

enum { kRounds = 20 };

static long add_one(MPI_Win win) {
  long value = -1;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
  MPI_Get(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
  MPI_Win_flush(0, win);
  value++;
  MPI_Put(&value, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
  MPI_Win_unlock(0, win);
  return value;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  long box = 0;
  MPI_Win win;
  MPI_Win_create(&box, sizeof(box), sizeof(box), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  for (int step = 1; step <= o.steps; step++) {
    const int sent = 100 * step + rank;
    int got = -1;
    MPI_Send(&sent, 1, MPI_INT, next, step, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < kRounds; i++) {
      const long value = add_one(win);
      CHECK(value > (step - 1) * kRounds * ranks && value <= step * kRounds * ranks);
    }
    report_step(step, o.step_ms);
    MPI_Recv(&got, 1, MPI_INT, previous, step, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == 100 * step + previous);
    MPI_Barrier(MPI_COMM_WORLD);
    mix_int(got);
  }
  MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
  long total = -1;
  MPI_Get(&total, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win);
  MPI_Win_unlock(0, win);
  CHECK(total == (long)o.steps * kRounds * ranks);
  mix_int((int)total);
  MPI_Win_free(&win);
  finish();
  return 0;
}
