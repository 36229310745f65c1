// SPDX-License-Identifier: Apache-2.0
// The collective calls with counts and displacements, per-peer types, MPI_IN_PLACE and an operation
// on a derived type made before the checkpoint.
#include "../check.h"

enum { kMost = 16 };

static void add_and_compare(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < 2 * *count; i++) {
    long *const to = (long *)inout + i, from = ((long *)in)[i];
    *to = i % 2 == 0 ? *to + from : from > *to ? from : *to;
  }
}

static int counts[kMost], places[kMost], total;  // rank r has r + 1 items

static void vectors(int step) {
  int mine[kMost], all[kMost * kMost], back[kMost];
  for (int i = 0; i <= rank; i++) mine[i] = 1000 * step + 10 * rank + i;
  memset(all, 0, sizeof all);
  MPI_Gatherv(mine, rank + 1, MPI_INT, all, counts, places, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  MPI_Bcast(all, total, MPI_INT, ranks - 1, MPI_COMM_WORLD);
  mix(all, sizeof(int) * (size_t)total);
  memset(back, 0, sizeof back);
  MPI_Scatterv(all, counts, places, MPI_INT, back, rank + 1, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(!memcmp(back, mine, sizeof(int) * (size_t)(rank + 1)));
  int again[kMost * kMost] = {0};
  memcpy(again + places[rank], mine, sizeof(int) * (size_t)(rank + 1));
  MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, again, counts, places, MPI_INT,
                 MPI_COMM_WORLD);
  CHECK(!memcmp(again, all, sizeof(int) * (size_t)total));
}

static void exchanges(int step) {
  int out[kMost * kMost], in[kMost * kMost], own[kMost], at[kMost], bytes[kMost];
  MPI_Datatype types[kMost];
  for (int r = 0; r < ranks; r++) {
    own[r] = rank + 1, at[r] = r * (rank + 1), bytes[r] = r * (int)sizeof(int), types[r] = MPI_INT;
    for (int i = 0; i <= rank; i++) out[r * (rank + 1) + i] = 1000 * step + 100 * rank + 10 * r + i;
  }
  MPI_Alltoallv(out, own, at, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; r++)
    for (int i = 0; i <= r; i++)
      CHECK(in[places[r] + i] == 1000 * step + 100 * r + 10 * rank + i);
  int one[kMost];
  for (int r = 0; r < ranks; r++) one[r] = 1, out[r] = step + 10 * rank + r;
  MPI_Alltoallw(out, one, bytes, types, in, one, bytes, types, MPI_COMM_WORLD);
  for (int r = 0; r < ranks; r++) CHECK(in[r] == step + 10 * r + rank);
  int got = -1;
  MPI_Scatter(out, 1, MPI_INT, &got, 1, MPI_INT, 0, MPI_COMM_WORLD);
  CHECK(got == step + rank);
}

static void reductions(int step, MPI_Datatype pair, MPI_Op add) {
  const long mine[2] = {step + rank, step * rank};
  long sum[2] = {0, 0}, before[2] = {-1, -1};
  MPI_Allreduce(mine, sum, 1, pair, add, MPI_COMM_WORLD);
  CHECK(sum[0] == (long)ranks * step + ranks * (ranks - 1) / 2);
  CHECK(sum[1] == (long)step * (ranks - 1));
  MPI_Exscan(mine, before, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  CHECK(rank == 0 ? before[0] == -1 : before[0] == (long)rank * step + rank * (rank - 1) / 2);
  int parts[kMost * kMost], own[kMost], block = 0;
  for (int i = 0; i < total; i++) parts[i] = step + i;
  MPI_Reduce_scatter(parts, own, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i <= rank; i++) CHECK(own[i] == ranks * (step + places[rank] + i));
  MPI_Reduce_scatter_block(parts, &block, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  CHECK(block == step + rank);
  MPI_Reduce_local(parts, own, 1, MPI_INT, MPI_SUM);
  CHECK(own[0] == ranks * (step + places[rank]) + step);
  int commutes = -1;
  MPI_Op_commutative(add, &commutes);
  CHECK(commutes == 1);
  mix(sum, sizeof sum);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  CHECK(ranks <= kMost);
  MPI_Datatype pair;
  MPI_Op add;
  MPI_Type_contiguous(2, MPI_LONG, &pair);
  MPI_Type_commit(&pair);
  MPI_Op_create(add_and_compare, 1, &add);
  for (int r = 0; r < ranks; r++) counts[r] = r + 1, places[r] = total, total += r + 1;
  for (int step = 1; step <= o.steps; step++) {
    vectors(step);
    report_step(step, o.step_ms);
    exchanges(step);
    reductions(step, pair, add);
  }
  MPI_Op_free(&add);
  MPI_Type_free(&pair);
  finish();
  return 0;
}
