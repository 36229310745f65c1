// SPDX-License-Identifier: Apache-2.0
// Synchronisation of a window of MPI_Win_create, without an operation.
#include "family.h"

static MPI_Win win;

void begin_windows(void) {
  MPI_Win_create(numbers, 4096, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
}
void end_windows(void) { MPI_Win_free(&win); }

static void lock(int n, int kind) {
  for (int i = 0; i < n; i++) {
    MPI_Win_lock(kind, peer, 0, win);
    MPI_Win_unlock(peer, win);
  }
}
static void lock_all(int n, int unused) {
  (void)unused;
  for (int i = 0; i < n; i++) {
    MPI_Win_lock_all(0, win);
    MPI_Win_unlock_all(win);
  }
}
static void fence(int n, int unused) {
  (void)unused;
  MPI_Win_fence(0, win);
  for (int i = 0; i < n; i++) MPI_Win_fence(0, win);
  MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}
static void flush(int n, int unused) {
  (void)unused;
  MPI_Win_lock_all(0, win);
  for (int i = 0; i < n; i++) MPI_Win_flush(peer, win);
  MPI_Win_unlock_all(win);
}
static void sync(int n, int unused) {
  (void)unused;
  MPI_Win_lock_all(0, win);
  for (int i = 0; i < n; i++) MPI_Win_sync(win);
  MPI_Win_unlock_all(win);
}

const struct Case window_cases[] = {
    {"windows", "Win_lock exclusive, unlock", lock, MPI_LOCK_EXCLUSIVE, 1},
    {"windows", "Win_lock shared, unlock", lock, MPI_LOCK_SHARED, 1},
    {"windows", "Win_lock_all, unlock_all", lock_all, 0, 1},
    {"windows", "Win_fence", fence, 0, 1},
    {"windows", "Win_flush", flush, 0, 1},
    {"windows", "Win_sync", sync, 0, 1},
    {0},
};
