// SPDX-License-Identifier: Apache-2.0
// One member is late for MPI_Win_post, and the others wait for it in MPI_Win_start (odd steps); or
// it is late for its epoch, and they wait in MPI_Win_wait (even ones). The last step waits there
// while the program is held.
#include "../check.h"

enum { kLate = 1, kMost = 16 };

static int *box;
static MPI_Win win;
static MPI_Group late, others;

// Nobody else pauses, or waits while the program is held.
static void be_late(int step, int late_ms) {
  say_step(step);
  if (rank == kLate) report_step(step, late_ms);
}

static void put(int step, int to) {
  const int value = 100 * step + rank;
  MPI_Put(&value, 1, MPI_INT, to, rank, 1, MPI_INT, win);
}

static void check_box(int step, int from) {
  CHECK(box[from] == 100 * step + from);
  mix_int(box[from]);
}

static void posts_late(int step, int late_ms) {
  be_late(step, late_ms);
  if (rank == kLate) {
    MPI_Win_post(others, 0, win);
    MPI_Win_wait(win);
    for (int i = 0; i < ranks; i++)
      if (i != kLate) check_box(step, i);
  } else {
    MPI_Win_start(late, 0, win);
    put(step, kLate);
    MPI_Win_complete(win);
  }
}

static void completes_late(int step, int late_ms) {
  if (rank != kLate) MPI_Win_post(late, 0, win);
  be_late(step, late_ms);
  if (rank == kLate) {
    MPI_Win_start(others, 0, win);
    for (int i = 0; i < ranks; i++)
      if (i != kLate) put(step, i);
    MPI_Win_complete(win);
  } else {
    MPI_Win_wait(win);
    check_box(step, kLate);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  CHECK(ranks > kLate && ranks <= kMost);
  const int who = kLate;
  MPI_Group world;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &who, &late);
  MPI_Group_excl(world, 1, &who, &others);
  // The same size for all numbers of ranks: MPICH 4.0 goes wrong where it is no multiple of 16.
  MPI_Win_allocate(kMost * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &box, &win);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (step % 2) posts_late(step, o.step_ms);
    else completes_late(step, o.step_ms);
  }
  MPI_Group_free(&late);
  MPI_Group_free(&others);
  MPI_Group_free(&world);
  MPI_Win_free(&win);
  finish();
  return 0;
}
