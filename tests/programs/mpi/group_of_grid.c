// SPDX-License-Identifier: Apache-2.0
// MPI_Comm_create_group on a grid made before the checkpoint, whose own group was asked for then
// and not again. MPICH 4.0 takes for granted that it was. And a duplicate of such a communicator:
// under Open MPI 4.1 both have the grid's topology, which is too large for them.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm grid, made, alone, copy;
  MPI_Group all, backwards, own_group;
  int order[1][3] = {{ranks - 1, 0, -1}};
  int periodic = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &grid);
  MPI_Comm_group(grid, &all);
  MPI_Group_range_incl(all, 1, order, &backwards);
  MPI_Group_incl(all, 1, &rank, &own_group);
  MPI_Comm_create_group(grid, own_group, 8, &alone);
  MPI_Comm_dup(alone, &copy);
  for (int step = 1; step <= o.steps; step++) {
    int before = -1, own = -1;
    report_step(step, o.step_ms);
    CHECK(MPI_Comm_create_group(grid, backwards, 7, &made) == MPI_SUCCESS);
    MPI_Comm_rank(made, &own);
    CHECK(own == ranks - 1 - rank);
    MPI_Scan(&rank, &before, 1, MPI_INT, MPI_SUM, made);
    mix_int(before);
    MPI_Allreduce(&rank, &own, 1, MPI_INT, MPI_SUM, copy);
    CHECK(own == rank);
    MPI_Comm_free(&made);
  }
  MPI_Comm_free(&copy);
  MPI_Comm_free(&alone);
  MPI_Group_free(&own_group);
  MPI_Group_free(&backwards);
  MPI_Group_free(&all);
  MPI_Comm_free(&grid);
  finish();
  return 0;
}
