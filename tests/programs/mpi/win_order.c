// SPDX-License-Identifier: Apache-2.0
// Epochs in the wrong order are refused, and those that are open stay so: operations where none is,
// locks in an epoch of MPI_Win_start, fences and MPI_Win_start in that of a lock, MPI_Win_free in
// any. Each step pauses within an epoch. Open MPI does not look at windows of shared memory, nor at
// what MPICH alone refuses.
#include "../check.h"

#ifdef MPICH_VERSION
static const int is_mpich = 1;
#else
static const int is_mpich = 0;
#endif

static MPI_Win win;
static int got;

static int refused(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  CHECK(class == MPI_SUCCESS || class == MPI_ERR_RMA_SYNC);
  return class == MPI_ERR_RMA_SYNC;
}
static int get(void) { return MPI_Get(&got, 1, MPI_INT, rank, 0, 1, MPI_INT, win); }

static void outside(int step, int step_ms) {
  const int one = 1;
  int result = 0;
  report_step(step, step_ms);
  CHECK(refused(get()));
  CHECK(refused(MPI_Put(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, win)));
  CHECK(refused(MPI_Accumulate(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_SUM, win)));
  CHECK(refused(MPI_Fetch_and_op(&one, &result, MPI_INT, rank, 0, MPI_SUM, win)));
  CHECK(!refused(MPI_Put(&one, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win)));
  int class = -1;  // the arguments are looked at first
  MPI_Error_class(MPI_Put(&one, 1, MPI_INT, -5, 0, 1, MPI_INT, win), &class);
  CHECK(class == MPI_ERR_RANK);
}

static void fences(int step, int step_ms) {
  CHECK(!refused(MPI_Win_fence(0, win)));
  CHECK(!refused(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)));  // nothing was done in the fence's
  CHECK(!refused(get()));
  CHECK(!refused(MPI_Win_unlock(rank, win)));
  CHECK(refused(get()));
  CHECK(!refused(MPI_Win_fence(0, win)));
  report_step(step, step_ms);
  CHECK(!refused(get()));
  CHECK(!refused(MPI_Win_fence(MPI_MODE_NOSUCCEED, win)));
  CHECK(refused(get()));
}

static void groups(int step, int step_ms) {
  MPI_Group all;
  MPI_Win_get_group(win, &all);
  CHECK(!refused(MPI_Win_post(all, 0, win)));
  CHECK(!refused(MPI_Win_start(all, 0, win)));
  report_step(step, step_ms);
  CHECK(refused(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)));
  CHECK(refused(MPI_Win_lock_all(0, win)));
  CHECK(refused(MPI_Win_fence(0, win)));
  if (is_mpich) CHECK(refused(MPI_Win_free(&win)));
  CHECK(!refused(get()));
  CHECK(!refused(MPI_Win_complete(win)));
  CHECK(refused(get()));
  if (is_mpich) CHECK(refused(MPI_Win_free(&win)));
  CHECK(!refused(MPI_Win_wait(win)));
  MPI_Group_free(&all);
}

static void locks(int step, int step_ms) {
  MPI_Group all;
  MPI_Win_get_group(win, &all);
  CHECK(!refused(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)));
  report_step(step, step_ms);
  CHECK(refused(MPI_Win_start(all, MPI_MODE_NOCHECK, win)));
  CHECK(refused(MPI_Win_fence(0, win)));
  if (is_mpich) CHECK(refused(MPI_Win_lock_all(0, win)));
  if (is_mpich) CHECK(refused(MPI_Win_free(&win)));
  CHECK(!refused(get()));
  CHECK(!refused(MPI_Win_unlock(rank, win)));
  CHECK(refused(get()));
  CHECK(!refused(MPI_Win_lock_all(0, win)));
  CHECK(refused(MPI_Win_fence(0, win)));
  if (is_mpich) CHECK(refused(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)));
  CHECK(!refused(get()));
  CHECK(!refused(MPI_Win_unlock_all(win)));
  CHECK(refused(get()));
  MPI_Group_free(&all);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  static _Alignas(64) int memory[16];
  int *given;
  MPI_Win made[3];
  MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &made[0]);
  MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &given, &made[1]);
  MPI_Win_allocate_shared(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &given, &made[2]);
  for (int i = 0; i < 3; i++) MPI_Win_set_errhandler(made[i], MPI_ERRORS_RETURN);
  void (*const ways[])(int, int) = {outside, fences, groups, locks};
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < (is_mpich ? 3 : 2); i++) {
      win = made[i];
      ways[step % 4](step, i ? 0 : o.step_ms);
    }
    if (!is_mpich) {
      win = made[2];
      CHECK(!refused(get()));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    mix_int(step);
  }
  for (int i = 0; i < 3; i++) MPI_Win_free(&made[i]);
  finish();
  return 0;
}
