// SPDX-License-Identifier: Apache-2.0
// Intercommunicators made out of one: split by color, also by one that the other group has not, and
// made of a part of each group. They are used over the checkpoint.
#include "../check.h"

static int sum_of_remote(MPI_Comm inter, int value) {
  int sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
  return sum;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  CHECK(ranks >= 2);
  const int lower = rank < ranks / 2;
  MPI_Comm half, inter, all, none, first;
  MPI_Comm_split(MPI_COMM_WORLD, lower, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, lower ? ranks / 2 : 0, 11, &inter);
  int own = -1, size = -1, flag = 0;
  MPI_Comm_rank(half, &own);
  // The same ranks, the other way round.
  CHECK(MPI_Comm_split(inter, 5, -own, &all) == MPI_SUCCESS);
  MPI_Comm_test_inter(all, &flag);
  MPI_Comm_remote_size(all, &size);
  CHECK(flag && size == (lower ? ranks - ranks / 2 : ranks / 2));
  CHECK(MPI_Comm_split(inter, lower, 0, &none) == MPI_SUCCESS);
  CHECK(none == MPI_COMM_NULL);
  // The first rank of each group.
  MPI_Group group, leader;
  const int zero = 0;
  MPI_Comm_group(inter, &group);
  MPI_Group_incl(group, 1, &zero, &leader);
  CHECK(MPI_Comm_create(inter, leader, &first) == MPI_SUCCESS);
  CHECK((first == MPI_COMM_NULL) == (own != 0));
  MPI_Group_free(&group);
  MPI_Group_free(&leader);
  for (int step = 1; step <= o.steps; step++) {
    const int value = 10 * step + rank;
    int got = -1;
    if (first != MPI_COMM_NULL) MPI_Send(&value, 1, MPI_INT, 0, 3, first);
    report_step(step, o.step_ms);
    if (first != MPI_COMM_NULL) {
      MPI_Recv(&got, 1, MPI_INT, 0, 3, first, MPI_STATUS_IGNORE);
      CHECK(got == 10 * step + (lower ? ranks / 2 : 0));
      CHECK(sum_of_remote(first, value) == got);
    }
    mix_int(sum_of_remote(all, value));
  }
  if (first != MPI_COMM_NULL) MPI_Comm_free(&first);
  MPI_Comm_free(&all);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  finish();
  return 0;
}
