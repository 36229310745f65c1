// SPDX-License-Identifier: Apache-2.0
// A window synchronized by post, start, complete and wait among neighbours; the checkpoint comes
// while both the access and the exposure epoch are open.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int box[4] = {0};
  MPI_Win win;
  MPI_Group world, origins, targets;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &previous, &origins);
  MPI_Group_incl(world, 1, &next, &targets);
  MPI_Win_create(box, sizeof box, sizeof box[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  for (int step = 1; step <= o.steps; step++) {
    const int out[3] = {100 * step + rank, step, rank};
    int flag = 0;
    MPI_Win_post(origins, 0, win);
    MPI_Win_start(targets, 0, win);
    MPI_Put(out, 2, MPI_INT, next, 0, 2, MPI_INT, win);
    report_step(step, o.step_ms);
    MPI_Put(out + 2, 1, MPI_INT, next, 2, 1, MPI_INT, win);
    MPI_Win_complete(win);
    if (step % 2) MPI_Win_wait(win);
    else while (!flag) MPI_Win_test(win, &flag);
    CHECK(box[0] == 100 * step + previous && box[1] == step && box[2] == previous && box[3] == 0);
    mix(box, sizeof box);
  }
  MPI_Group_free(&origins);
  MPI_Group_free(&targets);
  MPI_Group_free(&world);
  MPI_Win_free(&win);
  finish();
  return 0;
}
