// SPDX-License-Identifier: Apache-2.0
// Communicators with a topology made before the checkpoint: a grid and its rows, a graph, a
// weighted distributed graph; neighbourhood collectives on each, blocking and begun before the
// pause.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int dims[2] = {0, 0}, wrap[2] = {1, 0}, keep[2] = {1, 0}, coords[2], at[2], here;
  MPI_Comm grid, row, graph, ring;
  MPI_Dims_create(ranks, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, wrap, 0, &grid);
  MPI_Cart_sub(grid, keep, &row);
  int index[64], edges[64], weight[2] = {3 + rank, 7};
  CHECK(ranks <= 64);
  for (int i = 0; i < ranks; i++) index[i] = i + 1, edges[i] = (i + 1) % ranks;
  MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &graph);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, weight, 1, &next, weight + 1,
                                 MPI_INFO_NULL, 0, &ring);
  MPI_Comm_rank(grid, &here);
  for (int step = 1; step <= o.steps; step++) {
    int from = 0, to = 0, got = -1, kind = 0, pending_in[4] = {-1, -1, -1, -1}, one = 1;
    const int mine = 100 * step + rank;
    MPI_Request pending[2];
    MPI_Aint zero = 0;
    MPI_Datatype type = MPI_INT;
    MPI_Ineighbor_allgather(&mine, 1, MPI_INT, pending_in, 1, MPI_INT, grid, &pending[0]);
    MPI_Ineighbor_alltoallw(&mine, &one, &zero, &type, &got, &one, &zero, &type, ring, &pending[1]);
    report_step(step, o.step_ms);
    MPI_Waitall(2, pending, MPI_STATUSES_IGNORE);
    CHECK(got == 100 * step + previous);
    MPI_Cart_get(grid, 2, at, wrap, coords);
    CHECK(at[0] == dims[0] && at[1] == dims[1] && wrap[0] && !wrap[1]);
    MPI_Cart_rank(grid, coords, &from);
    CHECK(from == here);
    for (int d = 0; d < 2; d++) {
      MPI_Cart_shift(grid, d, 1, &from, &to);
      CHECK(from == MPI_PROC_NULL || pending_in[2 * d] == 100 * step + from);
      CHECK(to == MPI_PROC_NULL || pending_in[2 * d + 1] == 100 * step + to);
      CHECK(from != MPI_PROC_NULL || pending_in[2 * d] == -1);
    }
    MPI_Topo_test(row, &kind);
    CHECK(kind == MPI_CART);
    MPI_Cart_shift(row, 0, 1, &from, &to);
    MPI_Sendrecv(&mine, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, row, MPI_STATUS_IGNORE);
    mix_int(got);
    int neighbour = -1, count = 0, in = 0, out = 0, weighted = 0, source, target, w[2];
    MPI_Graph_neighbors_count(graph, rank, &count);
    MPI_Graph_neighbors(graph, rank, 1, &neighbour);
    CHECK(count == 1 && neighbour == next);
    MPI_Dist_graph_neighbors_count(ring, &in, &out, &weighted);
    MPI_Dist_graph_neighbors(ring, 1, &source, w, 1, &target, w + 1);
    CHECK(in == 1 && out == 1 && weighted && source == previous && target == next);
    CHECK(w[0] == 3 + rank && w[1] == 7);
    source = target = -1;
    MPI_Dist_graph_neighbors(ring, 1, &source, MPI_UNWEIGHTED, 1, &target, MPI_UNWEIGHTED);
    CHECK(source == previous && target == next);
    MPI_Neighbor_alltoall(&mine, 1, MPI_INT, &got, 1, MPI_INT, ring);
    CHECK(got == 100 * step + previous);
    mix_int(got);
  }
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
  MPI_Comm_free(&graph);
  MPI_Comm_free(&ring);
  finish();
  return 0;
}
