// SPDX-License-Identifier: Apache-2.0
// The life of a collective call: begun, completed in the same step or a later one; a persistent one
// several times, with new values.
#include "calls.h"

#include <sched.h>

enum { kMostItems = 4000, kFewItems = 40 };

static size_t buffer_bytes(const struct call *c) {
  return sizeof(int) * 2 * kMostRanks * (size_t)c->items;
}

static void clear(struct call *c) {
  memset(c->in, 0xff, buffer_bytes(c));
  memset(c->out, 0xff, buffer_bytes(c));
}

// What an operation of the program's own does: (a, b) stands for x -> ax + b, and the operation
// composes them. It is associative and not commutative.
static void compose(void *in, void *inout, int *count, MPI_Datatype *type) {
  const unsigned *const left = in;
  unsigned *const right = inout;
  MUST(*type != MPI_DATATYPE_NULL);
  for (int i = 0; i < *count; i++) {
    right[2 * i + 1] += right[2 * i] * left[2 * i + 1];
    right[2 * i] *= left[2 * i];
  }
}

static void provide_operation(struct call *c) {
  const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR};
  c->pair = MPI_INT;
  if (c->operation < 3) {
    c->op = ops[c->operation];
    return;
  }
  DO(MPI_Op_create(compose, 0, &c->op));
  DO(MPI_Type_contiguous(2, MPI_INT, &c->pair));
  DO(MPI_Type_commit(&c->pair));
}

static void forget_operation(struct call *c) {
  if (c->op == MPI_OP_NULL || c->operation < 3) return;
  DO(MPI_Op_free(&c->op));
  DO(MPI_Type_free(&c->pair));
}

void prepare_same(struct call *c) {
  for (int i = 0; i < 2 * c->items; i++) c->in[i] = item(c, self, kAll, i);
}

void prepare_each(struct call *c, const struct side *to) {
  for (int r = 0, n = 0; r < to->size; r++)
    for (int i = 0; i < c->items; i++) c->in[n++] = item(c, self, to->member[r], i);
}

static void end_call(struct call *c) {
  if (c->form == kPersistent) DO(MPI_Request_free(&c->request));
  forget_operation(c);
  free(c->in);
  free(c->out);
  free(c);
}

// MPICH 4.0 cannot complete these in an array of requests.
static void wait_alone(struct call *c) {
  int done = 0;
  if (derive(c->key, self) % 2) DO(MPI_Wait(&c->request, MPI_STATUS_IGNORE));
  else
    for (; !done; sched_yield()) DO(MPI_Test(&c->request, &done, MPI_STATUS_IGNORE));
}

static void finish_call(void *data) {
  struct call *const c = data;
  if (c->form == kPersistent) wait_alone(c);
  if (c->form == kPending) wait_for(&c->request, MPI_STATUSES_IGNORE, 1, c->key);
  c->kind->check(c);
  if (++c->round >= c->rounds) return end_call(c);
  c->key = derive(c->key, c->round), c->due += c->gap;
  clear(c);
  c->kind->prepare(c);
  DO(MPI_Start(&c->request));
  later(c->due, finish_call, c);
}

// Ranks of a communicator as world ranks; where there is nobody, -1.
static struct side in_world(struct side ranks, const struct side *members) {
  for (int i = 0; i < ranks.size; i++)
    if (ranks.member[i] >= 0) ranks.member[i] = members->member[ranks.member[i]];
  return ranks;
}

static void take_part(struct call *c, const struct comm *comm, uint64_t key) {
  c->handle = comm->handle, c->rank = comm->rank, c->is_root_side = comm->mine == 0;
  c->side = comm->side[comm->mine], c->far = comm->side[!comm->mine];
  c->size = c->side.size, c->key = key, c->shape = derive(key, -2);
  if (comm->kind == kNeighbours) {
    c->from = in_world(comm->from[c->rank], &c->side);
    c->to = in_world(comm->to[c->rank], &c->side);
  }
  c->in = memory(buffer_bytes(c));
  c->out = memory(buffer_bytes(c));
  clear(c);
  provide_operation(c);
  c->kind->prepare(c);
  c->kind->begin(c);
  if (c->form == kPersistent) DO(MPI_Start(&c->request));
  if (c->form == kPending && derive(c->key, self) % 2) forget_operation(c);
}

// Is somebody a neighbour of itself?
static int meets_itself(const struct comm *comm) {
  for (int r = 0; comm->kind == kNeighbours && r < size_of(comm); r++)
    for (int n = 0; n < comm->to[r].size; n++)
      if (comm->to[r].member[n] == r) return 1;
  return 0;
}

void play_call(struct step *step, struct comm *comm, const struct kind_of_call *kinds, int count,
               enum form form) {
  struct chance *const chance = &step->chance;
  struct call *const c = memory(sizeof *c);
  c->kind = &kinds[below(chance, count)];
  c->items = 1 + below(chance, one_in(chance, 8) ? kMostItems : kFewItems);
  if (form == kPersistent) c->items = 1 + c->items % kFewItems;
  c->root = below(chance, size_of(comm)), c->operation = below(chance, 4);
  c->in_place = one_in(chance, 4);
  c->form = form == kPersistent && c->kind->form == kNeverPersistent ? kPending : form;
  if (c->kind->form == kBlockingOnGrids && comm->kind == kNeighbours) c->form = kBlocking;
  c->rounds = 1 + below(chance, 4), c->gap = 1 + below(chance, 5);
  if (c->form != kPersistent || c->kind->form == kOnce || meets_itself(comm)) c->rounds = 1;
  c->due = c->form == kPersistent ? step->number + c->gap : draw_due(step);
  hold_comm(comm, step->number + c->gap * c->rounds + 20);
  if (!is_member(comm)) return free(c);
  take_part(c, comm, step->key);
  if (c->form == kBlocking) finish_call(c);
  else later(c->due, finish_call, c);
}
