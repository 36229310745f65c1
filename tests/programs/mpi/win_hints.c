// SPDX-License-Identifier: Apache-2.0
// Hints of windows: given when one is made, changed one at a time, asked for after the pause of
// each step; what is no hint of a window; an empty segment that need not be beside the others.
// Option: --beyond 1 (looks at the hints: Open MPI 4.1 does not tell them all).
#include "hints.h"

static int beyond;

static void check_hint(MPI_Win win, const char *key, const char *expected) {
  MPI_Info info;
  CHECK(MPI_Win_get_info(win, &info) == MPI_SUCCESS);
  if (beyond) check_hint_in(info, key, expected);
  else MPI_Info_free(&info);
}

static void set_hint(MPI_Win win, const char *key, const char *value) {
  MPI_Info info = one_hint(key, value);
  CHECK(MPI_Win_set_info(win, info) == MPI_SUCCESS);
  MPI_Info_free(&info);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 6, 0);
  beyond = has_option(argc, argv, "--beyond");
  static int memory[4], *given;
  MPI_Info info;
  MPI_Win made, shared;
  MPI_Info_create(&info);
  MPI_Info_set(info, "same_size", "true");
  MPI_Win_create(memory, sizeof memory, sizeof(int), info, MPI_COMM_WORLD, &made);
  MPI_Info_set(info, "alloc_shared_noncontig", "true");
  MPI_Win_allocate_shared(rank ? sizeof(int) : 0, sizeof(int), info, MPI_COMM_WORLD, &given,
                          &shared);
  MPI_Info_free(&info);
  for (int step = 1; step <= o.steps; step++) {
    set_hint(made, "accumulate_ordering", step % 2 ? "none" : "rar");
    set_hint(made, "no_such_hint", "true");
    set_hint(shared, "accumulate_ops", step % 2 ? "same_op" : "same_op_no_op");
    report_step(step, o.step_ms);
    check_hint(made, "same_size", "true");
    check_hint(made, "same_disp_unit", "false");
    check_hint(made, "accumulate_ordering", step % 2 ? "none" : "rar");
    check_hint(made, "no_such_hint", NULL);
    MPI_Aint size = -1;
    int unit = -1, *where = &unit;
    MPI_Win_shared_query(shared, 0, &size, &unit, &where);
    CHECK(size == 0 && where == NULL);
    check_hint(shared, "same_size", "true");
    check_hint(shared, "alloc_shared_noncontig", "true");
    check_hint(shared, "accumulate_ordering", "rar,raw,war,waw");
    check_hint(shared, "accumulate_ops", step % 2 ? "same_op" : "same_op_no_op");
    mix_int(step);
  }
  MPI_Win_free(&made);
  MPI_Win_free(&shared);
  finish();
}
