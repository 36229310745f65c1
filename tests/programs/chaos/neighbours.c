// SPDX-License-Identifier: Apache-2.0
// Neighbourhood collectives on grids and directed graphs, in all three forms.
#include "calls.h"

static void prepare_blocks(struct call *c) { prepare_each(c, &c->to); }

static void check_blocks(struct call *c, int to) {
  for (int n = 0; n < c->from.size; n++)
    for (int i = 0; i < c->items; i++)
      EXPECT(c->out[n * c->items + i],
             c->from.member[n] < 0 ? -1 : item(c, c->from.member[n], to, i));
}
static void check_same(struct call *c) { check_blocks(c, kAll); }
static void check_each(struct call *c) { check_blocks(c, self); }

static void begin_allgather(struct call *c) {
  FORM(c, Neighbor_allgather, neighbor_allgather, c->in, c->items, MPI_INT, c->out, c->items,
       MPI_INT, c->handle);
}
static void begin_alltoall(struct call *c) {
  FORM(c, Neighbor_alltoall, neighbor_alltoall, c->in, c->items, MPI_INT, c->out, c->items,
       MPI_INT, c->handle);
}

static int count_or_none(const struct call *c, int from, int to) {
  return from < 0 || to < 0 ? 0 : count_for(c, from, to);
}

static void lay_out(struct call *c, int per_pair) {
  for (int n = 0; n < kMostRanks; n++) {
    const int from = n < c->from.size ? c->from.member[n] : -1;
    const int to = n < c->to.size ? c->to.member[n] : -1;
    c->counts_out[n] = count_or_none(c, from, per_pair ? self : kAll);
    c->counts_in[n] = count_or_none(c, self, per_pair ? to : kAll);
    c->at_in[n] = c->at_out[n] = n * c->items;
  }
}
static void prepare_vector(struct call *c) {
  lay_out(c, 0);
  prepare_same(c);
}
static void prepare_vectors(struct call *c) {
  lay_out(c, 1);
  prepare_each(c, &c->to);
}
static void check_counts(struct call *c, int to) {
  for (int n = 0; n < c->from.size; n++)
    for (int i = 0; i < c->items; i++)
      EXPECT(c->out[n * c->items + i],
             i < c->counts_out[n] ? item(c, c->from.member[n], to, i) : -1);
}
static void check_vector(struct call *c) { check_counts(c, kAll); }
static void check_vectors(struct call *c) { check_counts(c, self); }

static void begin_allgatherv(struct call *c) {
  FORM(c, Neighbor_allgatherv, neighbor_allgatherv, c->in, count_for(c, self, kAll), MPI_INT,
       c->out, c->counts_out, c->at_out, MPI_INT, c->handle);
}
static void begin_alltoallv(struct call *c) {
  FORM(c, Neighbor_alltoallv, neighbor_alltoallv, c->in, c->counts_in, c->at_in, MPI_INT, c->out,
       c->counts_out, c->at_out, MPI_INT, c->handle);
}

// Not MPI_Neighbor_alltoallw: under MPICH 4.0 a rank that has nobody to send to receives nothing.
static const struct kind_of_call kinds[] = {
    {prepare_same, begin_allgather, check_same, kAnyForm},
    {prepare_blocks, begin_alltoall, check_each, kAnyForm},
    {prepare_vector, begin_allgatherv, check_vector, kNeverPersistent},
    {prepare_vectors, begin_alltoallv, check_vectors, kNeverPersistent},
};

void neighbours(struct step *step) {
  struct comm *const comm = draw_comm(step, kNeighbours, 1);
  const int form = below(&step->chance, 3);
  if (comm) play_call(step, comm, kinds, sizeof kinds / sizeof kinds[0], (enum form)form);
}
