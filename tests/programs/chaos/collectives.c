// SPDX-License-Identifier: Apache-2.0
// The collective calls of an intracommunicator, in all three forms.
#include "calls.h"

static int world(const struct call *c, int rank) { return c->side.member[rank]; }

static void same(struct call *c) { prepare_same(c); }
static void each(struct call *c) { prepare_each(c, &c->side); }

static void begin_barrier(struct call *c) { FORM(c, Barrier, barrier, c->handle); }
static void check_barrier(struct call *c) { EXPECT(c->out[0], -1); }

// ---- from one, to one ---------------------------------------------------------------------------

static void prepare_bcast(struct call *c) {
  if (c->rank == c->root) prepare_same(c);
}
static void begin_bcast(struct call *c) {
  FORM(c, Bcast, bcast, c->in, c->items, MPI_INT, c->root, c->handle);
}
static void check_bcast(struct call *c) {
  for (int i = 0; i < c->items; i++) EXPECT(c->in[i], item(c, world(c, c->root), kAll, i));
}

static void begin_gather(struct call *c) {
  FORM(c, Gather, gather, c->in, c->items, MPI_INT, c->out, c->items, MPI_INT, c->root, c->handle);
}
static void check_all(struct call *c) {
  for (int r = 0; r < c->size; r++)
    for (int i = 0; i < c->items; i++)
      EXPECT(c->out[r * c->items + i], item(c, world(c, r), kAll, i));
}
static void check_gather(struct call *c) {
  if (c->rank == c->root) check_all(c);
}

static void begin_scatter(struct call *c) {
  FORM(c, Scatter, scatter, c->in, c->items, MPI_INT, c->out, c->items, MPI_INT, c->root,
       c->handle);
}
static void check_scatter(struct call *c) {
  for (int i = 0; i < c->items; i++) EXPECT(c->out[i], item(c, world(c, c->root), self, i));
}

// ---- all to all ---------------------------------------------------------------------------------

static void prepare_allgather(struct call *c) {
  prepare_same(c);
  for (int i = 0; i < c->items; i++) c->out[c->rank * c->items + i] = c->in[i];  // for IN_PLACE
}
static void begin_allgather(struct call *c) {
  FORM(c, Allgather, allgather, c->in_place ? MPI_IN_PLACE : c->in, c->items, MPI_INT, c->out,
       c->items, MPI_INT, c->handle);
}

static void begin_alltoall(struct call *c) {
  FORM(c, Alltoall, alltoall, c->in, c->items, MPI_INT, c->out, c->items, MPI_INT, c->handle);
}
static void check_alltoall(struct call *c) {
  for (int r = 0; r < c->size; r++)
    for (int i = 0; i < c->items; i++)
      EXPECT(c->out[r * c->items + i], item(c, world(c, r), self, i));
}

// ---- with counts --------------------------------------------------------------------------------

// What each sends to all, or to each, if that has a length of its own per pair.
static void lay_out(struct call *c, int per_pair) {
  for (int r = 0; r < c->size; r++) {
    c->counts_out[r] = count_for(c, world(c, r), per_pair ? self : kAll);
    c->counts_in[r] = count_for(c, self, per_pair ? world(c, r) : kAll);
    c->at_out[r] = r * c->items, c->at_in[r] = r * c->items;
    c->bytes_out[r] = c->at_out[r] * (int)sizeof(int);
    c->bytes_in[r] = c->at_in[r] * (int)sizeof(int);
    c->types[r] = MPI_INT;
  }
}
static void prepare_vector(struct call *c) {
  lay_out(c, 0);
  prepare_same(c);
}
static void prepare_vectors(struct call *c) {
  lay_out(c, 1);
  prepare_each(c, &c->side);
}
static void check_vectors(struct call *c, int to) {
  for (int r = 0; r < c->size; r++)
    for (int i = 0; i < c->items; i++)
      EXPECT(c->out[c->at_out[r] + i],
             i < c->counts_out[r] ? item(c, world(c, r), to, i) : -1);
}

static void begin_gatherv(struct call *c) {
  FORM(c, Gatherv, gatherv, c->in, c->counts_out[c->rank], MPI_INT, c->out, c->counts_out,
       c->at_out, MPI_INT, c->root, c->handle);
}
static void check_gatherv(struct call *c) {
  if (c->rank == c->root) check_vectors(c, kAll);
}

static void prepare_scatterv(struct call *c) {
  prepare_vectors(c);
  for (int r = 0; r < c->size; r++) c->counts_in[r] = count_for(c, kAll, world(c, r));
}
static void begin_scatterv(struct call *c) {
  FORM(c, Scatterv, scatterv, c->in, c->counts_in, c->at_in, MPI_INT, c->out,
       c->counts_in[c->rank], MPI_INT, c->root, c->handle);
}
static void check_scatterv(struct call *c) {
  for (int i = 0; i < c->items; i++)
    EXPECT(c->out[i], i < c->counts_in[c->rank] ? item(c, world(c, c->root), self, i) : -1);
}

static void begin_allgatherv(struct call *c) {
  FORM(c, Allgatherv, allgatherv, c->in, c->counts_out[c->rank], MPI_INT, c->out, c->counts_out,
       c->at_out, MPI_INT, c->handle);
}
static void check_allgatherv(struct call *c) { check_vectors(c, kAll); }

static void begin_alltoallv(struct call *c) {
  FORM(c, Alltoallv, alltoallv, c->in, c->counts_in, c->at_in, MPI_INT, c->out, c->counts_out,
       c->at_out, MPI_INT, c->handle);
}
static void begin_alltoallw(struct call *c) {
  FORM(c, Alltoallw, alltoallw, c->in, c->counts_in, c->bytes_in, c->types, c->out, c->counts_out,
       c->bytes_out, c->types, c->handle);
}
static void check_alltoallv(struct call *c) { check_vectors(c, self); }

// ---- reductions ---------------------------------------------------------------------------------

static int ints_of(const struct call *c) { return c->operation < 3 ? c->items : 2 * c->items; }

// Element `i` (two ints for the program's own operation) of ranks first to last, by rank.
static void reduce(const struct call *c, int to, int first, int last, int i, int result[2]) {
  const int own = c->operation == 3;
  unsigned total[2] = {0, 0};
  for (int r = first; r <= last; r++) {
    const unsigned a = (unsigned)item(c, world(c, r), to, own ? 2 * i : i);
    const unsigned b = own ? (unsigned)item(c, world(c, r), to, 2 * i + 1) : 0;
    if (r == first) total[0] = a, total[1] = b;
    else if (own) total[1] = a * total[1] + b, total[0] = total[0] * a;
    else if (c->operation == 0) total[0] += a;
    else if (c->operation == 1) total[0] = a > total[0] ? a : total[0];
    else total[0] ^= a;
  }
  result[0] = (int)total[0], result[1] = (int)total[1];
}
static void check_reduction(struct call *c, int first, int last) {
  for (int i = 0; i < c->items; i++) {
    int right[2];
    reduce(c, kAll, first, last, i, right);
    if (c->operation < 3) EXPECT(c->out[i], right[0]);
    else EXPECT(c->out[2 * i], right[0]), EXPECT(c->out[2 * i + 1], right[1]);
  }
}

static void begin_reduce(struct call *c) {
  FORM(c, Reduce, reduce, c->in, c->out, c->items, c->pair, c->op, c->root, c->handle);
}
static void check_reduce(struct call *c) {
  if (c->rank == c->root) check_reduction(c, 0, c->size - 1);
}

static void prepare_allreduce(struct call *c) {
  prepare_same(c);
  if (c->in_place) memcpy(c->out, c->in, sizeof(int) * (size_t)ints_of(c));
}
static void begin_allreduce(struct call *c) {
  FORM(c, Allreduce, allreduce, c->in_place ? MPI_IN_PLACE : c->in, c->out, c->items, c->pair,
       c->op, c->handle);
}
static void check_allreduce(struct call *c) { check_reduction(c, 0, c->size - 1); }

static void begin_scan(struct call *c) {
  FORM(c, Scan, scan, c->in, c->out, c->items, c->pair, c->op, c->handle);
}
static void check_scan(struct call *c) { check_reduction(c, 0, c->rank); }

static void begin_exscan(struct call *c) {
  FORM(c, Exscan, exscan, c->in, c->out, c->items, c->pair, c->op, c->handle);
}
static void check_exscan(struct call *c) {
  if (c->rank > 0) check_reduction(c, 0, c->rank - 1);
}

// One block, of equal or own length, to each; sums only.
static void begin_reduce_scatter_block(struct call *c) {
  FORM(c, Reduce_scatter_block, reduce_scatter_block, c->in, c->out, c->items, MPI_INT, MPI_SUM,
       c->handle);
}
static void check_blocks(struct call *c, int count) {
  for (int i = 0; i < count; i++) {
    int sum = 0;
    for (int r = 0; r < c->size; r++) sum += item(c, world(c, r), self, i);
    EXPECT(c->out[i], sum);
  }
}
static void check_reduce_scatter_block(struct call *c) { check_blocks(c, c->items); }

static void prepare_reduce_scatter(struct call *c) {
  for (int r = 0, n = 0; r < c->size; r++) {
    c->counts_in[r] = count_for(c, kAll, world(c, r));
    for (int i = 0; i < c->counts_in[r]; i++) c->in[n++] = item(c, self, world(c, r), i);
  }
}
static void begin_reduce_scatter(struct call *c) {
  FORM(c, Reduce_scatter, reduce_scatter, c->in, c->out, c->counts_in, MPI_INT, MPI_SUM, c->handle);
}
static void check_reduce_scatter(struct call *c) { check_blocks(c, c->counts_in[c->rank]); }

// ---- steps --------------------------------------------------------------------------------------

static const struct kind_of_call kinds[] = {
    {same, begin_barrier, check_barrier, kAnyForm},
    {prepare_bcast, begin_bcast, check_bcast, kAnyForm},
    {same, begin_gather, check_gather, kNeverPersistent},
    {each, begin_scatter, check_scatter, kOnce},
    {prepare_allgather, begin_allgather, check_all, kNeverPersistent},
    {each, begin_alltoall, check_alltoall, kAnyForm},
    {prepare_vector, begin_gatherv, check_gatherv, kNeverPersistent},
    {prepare_scatterv, begin_scatterv, check_scatterv, kOnce},
    {prepare_vector, begin_allgatherv, check_allgatherv, kAnyForm},
    {prepare_vectors, begin_alltoallv, check_alltoallv, kAnyForm},
    {prepare_vectors, begin_alltoallw, check_alltoallv, kBlockingOnGrids},
    {same, begin_reduce, check_reduce, kAnyForm},
    {prepare_allreduce, begin_allreduce, check_allreduce, kAnyForm},
    {same, begin_scan, check_scan, kAnyForm},
    {same, begin_exscan, check_exscan, kAnyForm},
    {each, begin_reduce_scatter_block, check_reduce_scatter_block, kAnyForm},
    {prepare_reduce_scatter, begin_reduce_scatter, check_reduce_scatter, kAnyForm},
};
enum { kKinds = sizeof kinds / sizeof kinds[0] };

static void play(struct step *step, enum form form) {
  play_call(step, draw_comm(step, kIntra, 1), kinds, kKinds, form);
}

void collective(struct step *step) { play(step, kBlocking); }
void pending_collective(struct step *step) { play(step, kPending); }
void persistent_collective(struct step *step) { play(step, kPersistent); }
