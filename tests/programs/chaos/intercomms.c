// SPDX-License-Identifier: Apache-2.0
// Collective calls between the two sides of an intercommunicator, blocking and non-blocking.
#include "calls.h"

static void prepare_each_far(struct call *c) { prepare_each(c, &c->far); }

static void begin_barrier(struct call *c) { FORM_2(c, Barrier, barrier, c->handle); }
static void check_barrier(struct call *c) { EXPECT(c->out[0], -1); }

// The root is on the side of the communicator's first one; those beside it give and get nothing.
static int root_for(const struct call *c) {
  return !c->is_root_side ? c->root : c->rank == c->root ? MPI_ROOT : MPI_PROC_NULL;
}
static int gets_from_root(const struct call *c) { return !c->is_root_side; }
static int world_root(const struct call *c) { return c->far.member[c->root]; }

// MPICH 4.0 takes the root of MPI_Ibcast for that of the other side, too.
static void prepare_bcast(struct call *c) {
  if (c->form == kPending) c->root = 0;
  if (c->is_root_side && c->rank == c->root) prepare_same(c);
}
static void begin_bcast(struct call *c) {
  FORM_2(c, Bcast, bcast, c->in, c->items, MPI_INT, root_for(c), c->handle);
}
static void check_bcast(struct call *c) {
  for (int i = 0; gets_from_root(c) && i < c->items; i++)
    EXPECT(c->in[i], item(c, world_root(c), kAll, i));
}

static void begin_gather(struct call *c) {
  FORM_2(c, Gather, gather, c->in, c->items, MPI_INT, c->out, c->items, MPI_INT, root_for(c),
         c->handle);
}
static void check_all(struct call *c) {
  for (int r = 0; r < c->far.size; r++)
    for (int i = 0; i < c->items; i++)
      EXPECT(c->out[r * c->items + i], item(c, c->far.member[r], kAll, i));
}
static void check_gather(struct call *c) {
  if (root_for(c) == MPI_ROOT) check_all(c);
}

static void begin_scatter(struct call *c) {
  FORM_2(c, Scatter, scatter, c->in, c->items, MPI_INT, c->out, c->items, MPI_INT, root_for(c),
         c->handle);
}
static void check_scatter(struct call *c) {
  for (int i = 0; gets_from_root(c) && i < c->items; i++)
    EXPECT(c->out[i], item(c, world_root(c), self, i));
}

static void begin_allgather(struct call *c) {
  FORM_2(c, Allgather, allgather, c->in, c->items, MPI_INT, c->out, c->items, MPI_INT, c->handle);
}

static void begin_alltoall(struct call *c) {
  FORM_2(c, Alltoall, alltoall, c->in, c->items, MPI_INT, c->out, c->items, MPI_INT, c->handle);
}
static void check_alltoall(struct call *c) {
  for (int r = 0; r < c->far.size; r++)
    for (int i = 0; i < c->items; i++)
      EXPECT(c->out[r * c->items + i], item(c, c->far.member[r], self, i));
}

static void begin_allreduce(struct call *c) {
  FORM_2(c, Allreduce, allreduce, c->in, c->out, c->items, MPI_INT, MPI_SUM, c->handle);
}
static void check_allreduce(struct call *c) {
  for (int i = 0; i < c->items; i++) {
    int sum = 0;
    for (int r = 0; r < c->far.size; r++) sum += item(c, c->far.member[r], kAll, i);
    EXPECT(c->out[i], sum);
  }
}

static const struct kind_of_call kinds[] = {
    {prepare_same, begin_barrier, check_barrier, kNeverPersistent},
    {prepare_bcast, begin_bcast, check_bcast, kNeverPersistent},
    {prepare_same, begin_gather, check_gather, kNeverPersistent},
    {prepare_each_far, begin_scatter, check_scatter, kNeverPersistent},
    {prepare_same, begin_allgather, check_all, kNeverPersistent},
    {prepare_each_far, begin_alltoall, check_alltoall, kNeverPersistent},
    {prepare_same, begin_allreduce, check_allreduce, kNeverPersistent},
};

void inter_collective(struct step *step) {
  struct comm *const comm = draw_comm(step, kInter, 1);
  const int form = below(&step->chance, 2);
  if (comm) play_call(step, comm, kinds, sizeof kinds / sizeof kinds[0], (enum form)form);
}
