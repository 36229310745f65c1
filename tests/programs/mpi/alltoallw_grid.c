// SPDX-License-Identifier: Apache-2.0
// MPI_Ialltoallw and MPI_Alltoallw_init on a grid whose processes have more neighbours than the
// grid has processes. Open MPI 4.1 then reads as many datatypes as there are neighbours, so the
// arrays are that long here.
#include "../check.h"
#include "../persistent.h"

enum { kNeighbours = 6 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int dims[3] = {ranks, 1, 1}, periodic[3] = {1, 1, 1};
  int to[4][2], from[4][2], counts[4], places[4];
  MPI_Comm grid;
  MPI_Datatype pair, types[kNeighbours];
  CHECK(ranks <= 4);
  MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periodic, 0, &grid);
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  for (int i = 0; i < kNeighbours; i++) types[i] = i < ranks ? pair : MPI_INT;
  for (int i = 0; i < ranks; i++) counts[i] = 1, places[i] = i * (int)sizeof to[0];
  MPI_Request persistent;
  PERSISTENT(Alltoallw_init)(to, counts, places, types, from, counts, places, types, grid,
                             MPI_INFO_NULL, &persistent);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Request request = persistent;
    for (int i = 0; i < ranks; i++) to[i][0] = 100 * step + 10 * rank + i, to[i][1] = -to[i][0];
    if (step % 2) MPI_Start(&request);
    else MPI_Ialltoallw(to, counts, places, types, from, counts, places, types, grid, &request);
    report_step(step, o.step_ms);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < ranks; i++) {
      CHECK(from[i][0] == 100 * step + 10 * i + rank && from[i][1] == -from[i][0]);
      mix(from[i], sizeof from[i]);
    }
  }
  MPI_Request_free(&persistent);
  MPI_Type_free(&pair);
  MPI_Comm_free(&grid);
  finish();
  return 0;
}
