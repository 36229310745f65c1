// SPDX-License-Identifier: Apache-2.0
// Hints of communicators: given when one is made, changed one at a time, asked for after the pause
// of each step; what is no hint; a duplicate inherits none.
// Option: --beyond 1 (looks at the hints: the real MPIs do not agree on which they tell).
#include "hints.h"

static int beyond;

static void check_hint(MPI_Comm comm, const char *key, const char *expected) {
  MPI_Info info;
  CHECK(MPI_Comm_get_info(comm, &info) == MPI_SUCCESS);
  if (beyond) check_hint_in(info, key, expected);
  else MPI_Info_free(&info);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  beyond = has_option(argc, argv, "--beyond");
  MPI_Comm given, split, plain;
  MPI_Info info = one_hint("mpi_assert_no_any_tag", "true");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &given);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &split);
  MPI_Info_free(&info);
  MPI_Comm_dup(given, &plain);
  for (int step = 1; step <= o.steps; step++) {
    const char *const value = step % 2 ? "true" : "false";
    info = one_hint("mpi_assert_exact_length", value);
    MPI_Info_set(info, "no_such_hint", "true");
    CHECK(MPI_Comm_set_info(given, info) == MPI_SUCCESS);
    MPI_Info_free(&info);
    report_step(step, o.step_ms);
    check_hint(given, "mpi_assert_no_any_tag", "true");
    check_hint(given, "mpi_assert_exact_length", value);
    check_hint(given, "mpi_assert_allow_overtaking", "false");
    check_hint(given, "no_such_hint", NULL);
    check_hint(split, "mpi_assert_no_any_tag", "true");
    check_hint(plain, "mpi_assert_no_any_tag", "false");
    mix_int(step);
  }
  MPI_Comm_free(&given);
  MPI_Comm_free(&split);
  MPI_Comm_free(&plain);
  finish();
  return 0;
}
