// SPDX-License-Identifier: Apache-2.0
// Groups made before the checkpoint: set operations, ranges, translation with MPI_PROC_NULL, and
// communicators made from them before and after it.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Group world, rest, first, back, joined;
  MPI_Comm reversed, alone;
  const int zero[1] = {0};
  int range[1][3] = {{ranks - 1, 0, -1}};
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_excl(world, 1, zero, &rest);
  MPI_Group_incl(world, 1, zero, &first);
  MPI_Group_range_incl(world, 1, range, &back);
  MPI_Comm_create(MPI_COMM_WORLD, back, &reversed);
  MPI_Comm_create(MPI_COMM_WORLD, first, &alone);
  CHECK((alone != MPI_COMM_NULL) == (rank == 0));
  for (int step = 1; step <= o.steps; step++) {
    int same = -1, size = -1, mine = -1, sum = 0;
    report_step(step, o.step_ms);
    MPI_Group_union(first, rest, &joined);
    MPI_Group_compare(joined, world, &same);
    CHECK(same == MPI_IDENT);
    MPI_Group_free(&joined);
    MPI_Group_compare(back, world, &same);
    CHECK(same == (ranks > 1 ? MPI_SIMILAR : MPI_IDENT));
    MPI_Group_intersection(first, rest, &joined);
    CHECK(joined == MPI_GROUP_EMPTY);
    MPI_Group_difference(world, first, &joined);
    MPI_Group_compare(joined, rest, &same);
    MPI_Group_size(rest, &size);
    CHECK(same == MPI_IDENT && size == ranks - 1);
    if (joined != MPI_GROUP_EMPTY) MPI_Group_free(&joined);
    const int from[2] = {0, MPI_PROC_NULL};
    int to[2] = {-9, -9};
    MPI_Group_translate_ranks(world, 2, from, back, to);
    CHECK(to[0] == ranks - 1 && to[1] == MPI_PROC_NULL);
    if (ranks > 1) MPI_Group_translate_ranks(world, 1, from, rest, to);
    CHECK(ranks == 1 || to[0] == MPI_UNDEFINED);
    MPI_Comm_rank(reversed, &mine);
    CHECK(mine == ranks - 1 - rank);
    MPI_Scan(&rank, &sum, 1, MPI_INT, MPI_SUM, reversed);
    mix_int(sum);
    MPI_Comm later;
    MPI_Comm_create_group(MPI_COMM_WORLD, back, step, &later);
    MPI_Bcast(&sum, 1, MPI_INT, 0, later);
    CHECK(sum == ranks - 1);
    MPI_Comm_free(&later);
  }
  if (alone != MPI_COMM_NULL) MPI_Comm_free(&alone);
  MPI_Comm_free(&reversed);
  finish();
  return 0;
}
