// SPDX-License-Identifier: Apache-2.0
// Collective calls: of all, of neighbours, with counts for each, and those that are waited for.
#include "family.h"

#define WORLD MPI_COMM_WORLD

static MPI_Comm ring;
static MPI_Op own;
static const int counts[2] = {8, 8}, places[2] = {0, 8};
static const MPI_Aint far_places[2] = {0, 8};
static const MPI_Datatype bytes[2] = {MPI_BYTE, MPI_BYTE};

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *count; i++) ((double *)inout)[i] += ((double *)in)[i];
}

void begin_collectives(void) {
  const int dimensions[1] = {2}, periods[1] = {1};
  MPI_Cart_create(WORLD, 1, dimensions, periods, 0, &ring);
  MPI_Op_create(add, 1, &own);
}
void end_collectives(void) {
  MPI_Op_free(&own);
  MPI_Comm_free(&ring);
}

#define LOOP(name, call)                 \
  static void name(int n, int count) {   \
    (void)count;                         \
    for (int i = 0; i < n; i++) call;    \
  }
LOOP(barrier, MPI_Barrier(WORLD))
LOOP(bcast, MPI_Bcast(numbers, count, MPI_DOUBLE, 0, WORLD))
LOOP(allreduce, MPI_Allreduce(numbers, results, count, MPI_DOUBLE, MPI_SUM, WORLD))
LOOP(allreduce_own, MPI_Allreduce(numbers, results, count, MPI_DOUBLE, own, WORLD))
LOOP(reduce, MPI_Reduce(numbers, results, count, MPI_DOUBLE, MPI_SUM, 0, WORLD))
LOOP(scan, MPI_Scan(numbers, results, count, MPI_DOUBLE, MPI_SUM, WORLD))
LOOP(exscan, MPI_Exscan(numbers, results, count, MPI_DOUBLE, MPI_SUM, WORLD))
LOOP(reduce_scatter,
     MPI_Reduce_scatter_block(numbers, results, count, MPI_DOUBLE, MPI_SUM, WORLD))
LOOP(alltoall, MPI_Alltoall(sending, count, MPI_BYTE, receiving, count, MPI_BYTE, WORLD))
LOOP(alltoallv, MPI_Alltoallv(sending, counts, places, MPI_BYTE, receiving, counts, places,
                              MPI_BYTE, WORLD))
LOOP(alltoallw, MPI_Alltoallw(sending, counts, places, bytes, receiving, counts, places, bytes,
                              WORLD))
LOOP(allgatherv, MPI_Allgatherv(sending, 8, MPI_BYTE, receiving, counts, places, MPI_BYTE, WORLD))
LOOP(gatherv, MPI_Gatherv(sending, 8, MPI_BYTE, receiving, counts, places, MPI_BYTE, 0, WORLD))
LOOP(scatterv, MPI_Scatterv(sending, counts, places, MPI_BYTE, receiving, 8, MPI_BYTE, 0, WORLD))
LOOP(neighbor_alltoall,
     MPI_Neighbor_alltoall(sending, count, MPI_BYTE, receiving, count, MPI_BYTE, ring))
LOOP(neighbor_allgather,
     MPI_Neighbor_allgather(sending, count, MPI_BYTE, receiving, count, MPI_BYTE, ring))
LOOP(neighbor_alltoallv, MPI_Neighbor_alltoallv(sending, counts, places, MPI_BYTE, receiving,
                                                counts, places, MPI_BYTE, ring))
LOOP(neighbor_alltoallw, MPI_Neighbor_alltoallw(sending, counts, far_places, bytes, receiving,
                                                counts, far_places, bytes, ring))

static void end_one(void) { MPI_Wait(&requests[0], &status); }
LOOP(ibarrier, (MPI_Ibarrier(WORLD, requests), end_one()))
LOOP(ibcast, (MPI_Ibcast(numbers, count, MPI_DOUBLE, 0, WORLD, requests), end_one()))
LOOP(iallreduce,
     (MPI_Iallreduce(numbers, results, count, MPI_DOUBLE, MPI_SUM, WORLD, requests), end_one()))
LOOP(ialltoallw, (MPI_Ialltoallw(sending, counts, places, bytes, receiving, counts, places, bytes,
                                 WORLD, requests), end_one()))
static void many_iallreduce(int n, int count) {
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < count; k++)
      MPI_Iallreduce(numbers + k, results + k, 1, MPI_DOUBLE, MPI_SUM, WORLD, &requests[k]);
    MPI_Waitall(count, requests, statuses);
  }
}
// Where am I? Programs ask in their inner loops.
static void cart_shift(int n, int unused) {
  int source, destination;
  (void)unused;
  for (int i = 0; i < n; i++) MPI_Cart_shift(ring, 0, 1, &source, &destination);
}
static void cart_coords(int n, int unused) {
  int coordinates[1];
  (void)unused;
  for (int i = 0; i < n; i++) MPI_Cart_coords(ring, 0, 1, coordinates);
}

const struct Case collective_cases[] = {
    {"collectives", "Barrier", barrier, 0, 1},
    {"collectives", "Bcast 8 B", bcast, 1, 1},
    {"collectives", "Allreduce 8 B", allreduce, 1, 1},
    {"collectives", "Allreduce 64 KiB", allreduce, 8192, 1},
    {"collectives", "Allreduce, operation of its own", allreduce_own, 4, 1},
    {"collectives", "Reduce 8 B", reduce, 1, 1},
    {"collectives", "Scan 8 B", scan, 1, 1},
    {"collectives", "Exscan 8 B", exscan, 1, 1},
    {"collectives", "Reduce_scatter_block 8 B", reduce_scatter, 1, 1},
    {"collectives", "Alltoall 8 B", alltoall, 8, 1},
    {"collectives", "Alltoallv 8 B", alltoallv, 0, 1},
    {"collectives", "Alltoallw 8 B", alltoallw, 0, 1},
    {"collectives", "Allgatherv 8 B", allgatherv, 0, 1},
    {"collectives", "Gatherv 8 B", gatherv, 0, 1},
    {"collectives", "Scatterv 8 B", scatterv, 0, 1},
    {"neighbours", "Neighbor_alltoall 8 B", neighbor_alltoall, 8, 1},
    {"neighbours", "Neighbor_allgather 8 B", neighbor_allgather, 8, 1},
    {"neighbours", "Neighbor_alltoallv 8 B", neighbor_alltoallv, 0, 1},
    {"neighbours", "Neighbor_alltoallw 8 B", neighbor_alltoallw, 0, 1},
    {"neighbours", "Cart_shift", cart_shift, 0, 1},
    {"neighbours", "Cart_coords", cart_coords, 0, 1},
    {"collectives", "Ibarrier, Wait", ibarrier, 0, 1},
    {"collectives", "Ibcast 8 B, Wait", ibcast, 1, 1},
    {"collectives", "Iallreduce 8 B, Wait", iallreduce, 1, 1},
    {"collectives", "Ialltoallw 8 B, Wait", ialltoallw, 0, 1},
    {"collectives", "8 x Iallreduce, Waitall", many_iallreduce, 8, 8},
    {0},
};
