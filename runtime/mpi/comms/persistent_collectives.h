// SPDX-License-Identifier: Apache-2.0
// Persistent collective calls. A persistent collective is its own recipe: what to begin whenever it
// is started, over any real MPI, whether it knows the persistent form or not. In an image it is
// inactive or finished.
//
// MPI matches the calls that make them, not their starts, which may come in another order on each
// rank. So each one has a duplicate of the communicator to itself, with a clock of its own.
//
// Freeing a request is local, freeing a communicator is not: the duplicate becomes idle. Where the
// members meet next, making another request or freeing the communicator, they agree which
// duplicates are idle on all of them, and take one of those or end them.
#pragma once

#include <new>

#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

struct KeptCollective {
  int (*begin)(KeptCollective* kept, RealRequest* real);
  CommSlot* comm;  // the duplicate
  Slot* used[2];  // the datatypes and the operation that it keeps alive
  // Of those with arrays of datatypes, for all members: references, room for the real ones.
  DatatypeSlot** types;
  i32 types_count;
  RealDatatype* reals;
  void* arrays;  // a chain of KeptArray, or null
};
template <typename Begin>
struct KeptCall : KeptCollective {
  explicit KeptCall(Begin call) : call_(call) {}
  Begin call_;
};

struct UsedSlots {
  Slot* of[2];
};
struct TypeList {
  DatatypeSlot** types = nullptr;
  i32 count = 0;
  RealDatatype* reals = nullptr;
};

void keep_alive(Slot* slot);

/// A duplicate of `parent` that is idle on every member, the same one on all; null: there is none.
/// Collective over `parent`. Preconditions: the call has been counted.
Comm* idle_duplicate(CommSlot* parent);

/// A duplicate of `parent` that no other persistent collective uses.
int take_duplicate(CommSlot* parent, CommSlot** own);

/// Ends the duplicates of a communicator that is being freed; those still in use outlive it.
/// Collective over `parent`.
void end_duplicates(CommSlot* parent);

/// True if it is a reduction whose operation is the application's.
bool reduces_by_function(const Request* request);

/// Makes a persistent collective; `begin(own, real)` begins it on the communicator `own`. It runs
/// in any later process of this rank, so it may hold slots and the application's pointers only.
template <typename Begin>
int collective_init(CommSlot* comm, UsedSlots used, RequestSlot** handle, Begin begin,
                    TypeList types = {}) {
  CommSlot* own = nullptr;
  if (const int error = take_duplicate(comm, &own)) return error;
  LowerScope scope;
  using Kept = KeptCall<Begin>;
  Kept* const kept = new (arena_alloc(sizeof(Kept))) Kept(begin);
  kept->begin = [](KeptCollective* self, RealRequest* real) {
    return static_cast<Kept*>(self)->call_(self->comm, real);
  };
  kept->comm = own;
  for (int i = 0; i < 2; i++) keep_alive(kept->used[i] = used.of[i]);
  kept->types = types.types;
  kept->types_count = types.count;
  kept->reals = types.reals;
  kept->arrays = nullptr;
  for (i32 i = 0; i < types.count; i++) keep_alive(types.types[i]);
  RequestSlot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kPersistentCollective, RequestState::kInactive);
  request->owns = true;
  request->comm = own;
  request->peer = kUndefined;
  request->kept_collective = kept;
  slot->real() = state().lower.request_null;
  *handle = slot;
  return kSuccess;
}

}  // namespace fermata::mpi
