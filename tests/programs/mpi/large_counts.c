// SPDX-License-Identifier: Apache-2.0
// The large-count forms with arrays of counts and displacements, where the header has them:
// blocking, non-blocking and persistent, of a neighbourhood, and null where nothing is read.
#include "../check.h"

#if MPI_VERSION >= 4
typedef MPI_Count count_t;
typedef MPI_Aint place_t;
#define CALL(name) MPI_##name##_c
#else
typedef int count_t, place_t;
#define CALL(name) MPI_##name
#endif

enum { kMost = 8, kEach = 3 };

static void mix_row(const int *row, int n) { mix(row, (size_t)n * sizeof *row); }

static void types(int step) {
  const count_t lengths[2] = {1, 2}, sizes[2] = {3, 4}, parts[2] = {1, 2}, starts[2] = {1, 1};
  const count_t places[2] = {0, 3};
#if MPI_VERSION >= 4
  const MPI_Count bytes[2] = {0, 16};
#else
  const MPI_Aint bytes[2] = {0, 16};
#endif
  const MPI_Datatype of[2] = {MPI_INT, MPI_INT};
  MPI_Datatype made[5];
  CALL(Type_indexed)(2, lengths, places, MPI_INT, &made[0]);
  CALL(Type_create_struct)(2, lengths, bytes, of, &made[1]);
  CALL(Type_create_subarray)(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &made[2]);
  CALL(Type_create_hindexed)(2, lengths, bytes, MPI_INT, &made[3]);
  CALL(Type_create_indexed_block)(2, 1, places, MPI_INT, &made[4]);
  for (int i = 0; i < 5; i++) {
    int from[16], to[16] = {0}, size = 0;
    for (int k = 0; k < 16; k++) from[k] = step * 100 + k;
    MPI_Type_commit(&made[i]);
    MPI_Type_size(made[i], &size);
    MPI_Sendrecv(from, 1, made[i], 0, 0, to, size / 4, MPI_INT, 0, 0, MPI_COMM_SELF,
                 MPI_STATUS_IGNORE);
    mix_row(to, 16);
    MPI_Type_free(&made[i]);
  }
}

static void persistent(int *in, int own, int *out, const count_t *counts, const place_t *places) {
#if MPI_VERSION >= 4
  MPI_Request kept;
  MPI_Allgatherv_init_c(in, own, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD,
                        MPI_INFO_NULL, &kept);
  for (int i = 0; i < 2; i++) {
    memset(out, 0, kMost * kEach * sizeof *out);
    MPI_Start(&kept);
    MPI_Wait(&kept, MPI_STATUS_IGNORE);
  }
  MPI_Request_free(&kept);
#else
  memset(out, 0, kMost * kEach * sizeof *out);
  MPI_Allgatherv(in, own, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
#endif
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(ranks <= kMost);
  MPI_Comm grid;
  const int dims[1] = {ranks}, periods[1] = {1};
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
  count_t counts[kMost];
  place_t places[kMost];
  for (int i = 0; i < ranks; i++) {
    counts[i] = kEach - i % 2;
    places[i] = kEach * i;
  }
  const int own = (int)counts[rank];
  const count_t near[2] = {1, 1};
  const place_t near_at[2] = {1, 0}, same[2] = {1, 1};
  int in[kMost * kEach], out[kMost * kEach];
  const int all = kMost * kEach;
  for (int step = 1; step <= o.steps; step++) {
    const int root = step % ranks;
    count_t *const at_root = rank == root ? counts : NULL;
    place_t *const at_root_places = rank == root ? places : NULL;
    MPI_Request requests[3];
    for (int i = 0; i < all; i++) in[i] = step * 1000 + rank * 100 + i;

    memset(out, 0, sizeof out);
    CALL(Gatherv)(in, own, MPI_INT, out, at_root, at_root_places, MPI_INT, root, MPI_COMM_WORLD);
    mix_row(out, all);
    CALL(Scatterv)(in, at_root, at_root_places, MPI_INT, out, own, MPI_INT, root, MPI_COMM_WORLD);
    mix_row(out, all);
    CALL(Allgatherv)(in, own, MPI_INT, out, counts, places, MPI_INT, MPI_COMM_WORLD);
    mix_row(out, all);
    memset(out, 0, sizeof out);
    count_t back[kMost];
    for (int i = 0; i < ranks; i++) back[i] = counts[rank];
    CALL(Alltoallv)(in, counts, places, MPI_INT, out, back, places, MPI_INT, MPI_COMM_WORLD);
    mix_row(out, all);
    CALL(Reduce_scatter)(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    mix_row(out, all);
    CALL(Neighbor_alltoallv)(in, near, same, MPI_INT, out, near, near_at, MPI_INT, grid);
    mix_row(out, all);

    int first[kMost * kEach] = {0}, second[kMost * kEach] = {0}, third[kMost * kEach] = {0};
    CALL(Iallgatherv)(in, own, MPI_INT, first, counts, places, MPI_INT, MPI_COMM_WORLD,
                      &requests[0]);
    CALL(Igatherv)(in, own, MPI_INT, second, at_root, at_root_places, MPI_INT, root,
                   MPI_COMM_WORLD, &requests[1]);
    CALL(Ineighbor_allgatherv)(in, 1, MPI_INT, third, near, near_at, MPI_INT, grid, &requests[2]);
    report_step(step, o.step_ms);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    mix_row(first, all);
    mix_row(second, all);
    mix_row(third, all);
    types(step);
    persistent(in, own, out, counts, places);
    mix_row(out, all);
  }
  MPI_Comm_free(&grid);
  finish();
  return 0;
}
