// SPDX-License-Identifier: Apache-2.0
// A collective call of the script: one description for its blocking, non-blocking and persistent
// form.
#ifndef CALLS_H
#define CALLS_H

#include "chaos.h"
#include "../persistent.h"

enum form { kBlocking, kPending, kPersistent };

struct call {
  MPI_Comm handle;
  enum form form;
  int rank, size, root, is_root_side, items, in_place;
  struct side side, far, from, to;  // own side, the other one, own neighbours
  uint64_t key, shape;  // values; counts, which stay when a persistent call gets new values
  int *in, *out;
  int counts_in[kMostRanks], counts_out[kMostRanks], at_in[kMostRanks], at_out[kMostRanks];
  int bytes_in[kMostRanks], bytes_out[kMostRanks];
  MPI_Datatype types[kMostRanks], pair;
  MPI_Op op;
  int operation;
  MPI_Request request;
  const struct kind_of_call *kind;
  int round, rounds, due, gap;
};

/// What MPIs get wrong. kOnce: a rank gets items from itself, which MPICH 4.0 copies when a
/// persistent request is made and not when it is started; so it is started with these alone. The
/// same goes for large ones, so persistent ones are small. kBlockingOnGrids: Open MPI 4.1 takes
/// the number of neighbours for the length of the arrays of types.
enum { kAnyForm, kOnce, kNeverPersistent, kBlockingOnGrids };

struct kind_of_call {
  void (*prepare)(struct call *);  // fills `in`
  void (*begin)(struct call *);
  void (*check)(struct call *);
  int form;
};

/// Makes the call in its form. A persistent one is begun by MPI_Start.
#define FORM(c, Name, name, ...)                                       \
  DO((c)->form == kBlocking  ? MPI_##Name(__VA_ARGS__)                 \
     : (c)->form == kPending ? MPI_I##name(__VA_ARGS__, &(c)->request) \
                             : PERSISTENT(Name##_init)(__VA_ARGS__,    \
                                                       MPI_INFO_NULL, &(c)->request))
/// For intercommunicators, which have no persistent form in the MPIs of today.
#define FORM_2(c, Name, name, ...)                         \
  DO((c)->form == kBlocking ? MPI_##Name(__VA_ARGS__)      \
                            : MPI_I##name(__VA_ARGS__, &(c)->request))

enum { kAll = 99 };

/// Item i of what `from` has for `to`, or for kAll. World ranks, for there may be two sides.
static inline int item(const struct call *c, int from, int to, int i) {
  return value(derive(derive(c->key, from), to), i);
}

/// How many items `from` has for `to` in a call with counts.
static inline int count_for(const struct call *c, int from, int to) {
  return (int)(derive(derive(c->shape, from), to) % (uint64_t)(c->items + 1));
}

/// Items for everybody alike, and items for each, in the order of `to`.
void prepare_same(struct call *c);
void prepare_each(struct call *c, const struct side *to);

/// Draws and begins a call on a communicator, and registers its completion.
void play_call(struct step *step, struct comm *comm, const struct kind_of_call *kinds, int count,
               enum form form);

#endif
