// SPDX-License-Identifier: Apache-2.0
// The checkpoint comes when members have been told something in MPI_Win_post and MPI_Win_complete
// and have not looked yet: of one window that they may begin, twice over; of another that the
// origins are done.
#include "../check.h"

static int next, previous;

static MPI_Win make(int **box) {
  MPI_Win win;
  MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, box, &win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < 4; i++) (*box)[i] = 0;
  MPI_Win_fence(0, win);
  return win;
}

static void put(MPI_Win win, int value) {
  MPI_Put(&value, 1, MPI_INT, next, 1, 1, MPI_INT, win);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Group world, origins, targets;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &previous, &origins);
  MPI_Group_incl(world, 1, &next, &targets);
  int *first, *second, *done;
  const MPI_Win posted[2] = {make(&first), make(&second)}, completed = make(&done);
  MPI_Win wins[3] = {posted[0], posted[1], completed};
  for (int step = 1; step <= o.steps; step++) {
    MPI_Win_post(origins, 0, posted[0]);
    MPI_Win_post(origins, 0, posted[1]);
    MPI_Win_post(origins, 0, completed);
    MPI_Win_start(targets, 0, completed);
    put(completed, 300 * step + rank);
    MPI_Win_complete(completed);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int w = 0; w < 2; w++) {
      MPI_Win_start(targets, 0, posted[w]);
      put(posted[w], (w + 1) * 100 * step + rank);
      MPI_Win_complete(posted[w]);
    }
    int flag = 0;
    while (step % 2 && !flag) MPI_Win_test(completed, &flag);
    if (!flag) MPI_Win_wait(completed);
    MPI_Win_wait(posted[0]);
    MPI_Win_wait(posted[1]);
    CHECK(first[1] == 100 * step + previous && second[1] == 200 * step + previous);
    CHECK(done[1] == 300 * step + previous);
    mix_int(first[1] + second[1] + done[1]);
  }
  MPI_Group_free(&origins);
  MPI_Group_free(&targets);
  MPI_Group_free(&world);
  for (int i = 0; i < 3; i++) MPI_Win_free(&wins[i]);
  finish();
  return 0;
}
