// SPDX-License-Identifier: Apache-2.0
// MPI_Comm_create_group on a grid made before the checkpoint, whose own group was asked for then
// and not again. MPICH 4.0 takes for granted that it was.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm grid, made;
  MPI_Group all, backwards;
  int order[1][3] = {{ranks - 1, 0, -1}};
  int periodic = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &grid);
  MPI_Comm_group(grid, &all);
  MPI_Group_range_incl(all, 1, order, &backwards);
  for (int step = 1; step <= o.steps; step++) {
    int before = -1, own = -1;
    report_step(step, o.step_ms);
    CHECK(MPI_Comm_create_group(grid, backwards, 7, &made) == MPI_SUCCESS);
    MPI_Comm_rank(made, &own);
    CHECK(own == ranks - 1 - rank);
    MPI_Scan(&rank, &before, 1, MPI_INT, MPI_SUM, made);
    mix_int(before);
    MPI_Comm_free(&made);
  }
  MPI_Group_free(&backwards);
  MPI_Group_free(&all);
  MPI_Comm_free(&grid);
  finish();
  return 0;
}
