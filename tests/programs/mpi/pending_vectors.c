// SPDX-License-Identifier: Apache-2.0
// The non-blocking collective calls with counts, displacements and per-peer types, begun before the
// checkpoint and waited for after it; the datatype of one is freed at once.
#include "../check.h"

enum { kMost = 16 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  CHECK(ranks <= kMost);
  int counts[kMost], places[kMost], bytes[kMost], index[kMost], one[kMost];
  int total = 0;
  MPI_Datatype types[kMost];
  for (int r = 0; r < ranks; r++) {
    counts[r] = r + 1, places[r] = total, total += r + 1;
    bytes[r] = r * (int)sizeof(int), one[r] = 1, index[r] = r;
    types[r] = MPI_INT;
  }
  for (int step = 1; step <= o.steps; step++) {
    enum { kGatherv, kScatterv, kAllgatherv, kAlltoallv, kAlltoallw, kExscan, kScatterSum,
           kBlockSum, kGather, kScatter, kCalls };
    MPI_Request request[kCalls];
    int mine[kMost], all[kMost * kMost] = {0}, every[kMost * kMost] = {0}, part[kMost] = {0};
    int out[kMost], in[kMost] = {0}, in_w[kMost] = {0}, sums[kMost] = {0}, before = -1, block = -1;
    int source[kMost * kMost], gathered[kMost] = {0}, scattered = -1;
    MPI_Datatype number;
    for (int i = 0; i <= rank; i++) mine[i] = 1000 * step + 10 * rank + i;
    for (int r = 0; r < ranks; r++) out[r] = 1000 * step + 10 * rank + r;
    for (int i = 0; i < total; i++) source[i] = 100 * step + i;
    MPI_Type_contiguous(1, MPI_INT, &number);
    MPI_Type_commit(&number);
    MPI_Igatherv(mine, rank + 1, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD,
                 &request[kGatherv]);
    MPI_Iscatterv(source, counts, places, MPI_INT, part, rank + 1, number, ranks - 1,
                  MPI_COMM_WORLD, &request[kScatterv]);
    MPI_Type_free(&number);
    MPI_Iallgatherv(mine, rank + 1, MPI_INT, every, counts, places, MPI_INT, MPI_COMM_WORLD,
                    &request[kAllgatherv]);
    MPI_Ialltoallv(out, one, index, MPI_INT, in, one, index, MPI_INT, MPI_COMM_WORLD,
                   &request[kAlltoallv]);
    MPI_Ialltoallw(out, one, bytes, types, in_w, one, bytes, types, MPI_COMM_WORLD,
                   &request[kAlltoallw]);
    MPI_Iexscan(&step, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request[kExscan]);
    MPI_Ireduce_scatter(source, sums, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                        &request[kScatterSum]);
    MPI_Ireduce_scatter_block(source, &block, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD,
                              &request[kBlockSum]);
    MPI_Igather(&out[0], 1, MPI_INT, gathered, 1, MPI_INT, 0, MPI_COMM_WORLD, &request[kGather]);
    MPI_Iscatter(out, 1, MPI_INT, &scattered, 1, MPI_INT, 0, MPI_COMM_WORLD, &request[kScatter]);
    report_step(step, o.step_ms);
    MPI_Waitall(kCalls, request, MPI_STATUSES_IGNORE);
    for (int r = 0; r < ranks; r++) {
      for (int i = 0; i <= r; i++) {
        CHECK(every[places[r] + i] == 1000 * step + 10 * r + i);
        CHECK(rank != 0 || all[places[r] + i] == every[places[r] + i]);
      }
      CHECK(in_w[r] == 1000 * step + 10 * r + rank);
      CHECK(rank != 0 || gathered[r] == 1000 * step + 10 * r);
      CHECK(in[r] == 1000 * step + 10 * r + rank);
    }
    for (int i = 0; i <= rank; i++) {
      CHECK(part[i] == 100 * step + places[rank] + i);
      CHECK(sums[i] == ranks * part[i]);
    }
    CHECK(rank == 0 || before == rank * step);
    CHECK(block == 100 * step + rank && scattered == 1000 * step + rank);
    mix(every, sizeof every);
    mix(sums, sizeof sums);
  }
  finish();
  return 0;
}
