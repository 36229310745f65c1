// SPDX-License-Identifier: Apache-2.0
// A dynamic window: memory attached before and between checkpoints, addressed absolutely; its name,
// attributes, group and error handler.
#include "../check.h"

static int handled;
static void handle(MPI_Win *win, int *code, ...) {
  (void)win, (void)code;
  handled++;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  static int early[8];
  MPI_Win win;
  MPI_Errhandler own;
  int key, *value = NULL, flag = 0, length = 0, same = -1;
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  MPI_Win_attach(win, early, sizeof early);
  MPI_Win_set_name(win, "a window");
  MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL);
  MPI_Win_set_attr(win, key, early);
  MPI_Win_create_errhandler(handle, &own);
  MPI_Win_set_errhandler(win, own);
  for (int step = 1; step <= o.steps; step++) {
    int *const late = calloc(16, sizeof *late);
    MPI_Aint mine[2], theirs[2];
    MPI_Win_attach(win, late, 16 * sizeof *late);
    MPI_Get_address(early, &mine[0]);
    MPI_Get_address(late, &mine[1]);
    MPI_Sendrecv(mine, 2, MPI_AINT, previous, 1, theirs, 2, MPI_AINT, next, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    const int out = 100 * step + rank;
    MPI_Win_fence(0, win);
    MPI_Put(&out, 1, MPI_INT, next, theirs[1], 1, MPI_INT, win);
    report_step(step, o.step_ms);
    MPI_Put(&out, 1, MPI_INT, next, theirs[0] + sizeof(int), 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(early[1] == 100 * step + previous && late[0] == early[1]);
    mix_int(late[0]);
    MPI_Win_detach(win, late);
    free(late);
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Group group, world;
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 8 && !strcmp(name, "a window"));
    MPI_Win_get_attr(win, key, &value, &flag);
    CHECK(flag && value == early);
    MPI_Win_get_group(win, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &same);
    CHECK(same == MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    CHECK(MPI_Win_lock(MPI_LOCK_SHARED, ranks + 3, 0, win) != MPI_SUCCESS && handled == step);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Win_detach(win, early);
  MPI_Win_free(&win);
  MPI_Errhandler_free(&own);
  finish();
  return 0;
}
