// SPDX-License-Identifier: Apache-2.0
// Atomic operations on a window between checkpoints: fetch-and-op, compare-and-swap,
// get-accumulate, and the request-based forms with requests pending over the pause.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int box[16] = {0};
  MPI_Win win;
  MPI_Win_create(box, sizeof box, sizeof box[0], MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_lock_all(0, win);
  for (int step = 1; step <= o.steps; step++) {
    int one = 1, before = -1, old = -1, kept[2] = {-1, -1}, get = -1;
    const int put[2] = {100 * step + rank, step}, add[2] = {step, 10};
    MPI_Request request[4];
    MPI_Fetch_and_op(&one, &before, MPI_INT, next, 0, MPI_SUM, win);
    MPI_Win_flush(next, win);
    CHECK(before == step - 1);
    const int expected = step - 1, desired = step;
    MPI_Compare_and_swap(&desired, &expected, &old, MPI_INT, next, 1, win);
    MPI_Win_flush(next, win);
    CHECK(old == step - 1);
    MPI_Rput(put, 2, MPI_INT, next, 4, 2, MPI_INT, win, &request[0]);
    MPI_Raccumulate(add, 2, MPI_INT, next, 8, 2, MPI_INT, MPI_SUM, win, &request[1]);
    MPI_Rget(&get, 1, MPI_INT, next, 0, 1, MPI_INT, win, &request[2]);
    MPI_Rget_accumulate(add, 2, MPI_INT, kept, 2, MPI_INT, next, 10, 2, MPI_INT, MPI_SUM, win,
                        &request[3]);
    report_step(step, o.step_ms);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++) CHECK(request[i] == MPI_REQUEST_NULL);
    CHECK(get == step);
    CHECK(kept[0] == step * (step - 1) / 2 && kept[1] == 10 * (step - 1));
    MPI_Get_accumulate(NULL, 0, MPI_INT, kept, 1, MPI_INT, next, 8, 1, MPI_INT, MPI_NO_OP, win);
    MPI_Win_flush_all(win);
    CHECK(kept[0] == step * (step + 1) / 2);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    CHECK(box[0] == step && box[1] == step && box[4] == 100 * step + previous && box[5] == step);
    mix(box, sizeof box);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  finish();
  return 0;
}
