// SPDX-License-Identifier: Apache-2.0
// Non-blocking collective calls. They count on the collective clock where they are begun; when all
// ranks are parked, every member has begun the same ones, so polling them ends them, and no image
// ever holds one in progress. Hence they need no recipe.
#pragma once

#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/references.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

/// What a reduction needs until its end, where the operation is the application's: its function is
/// told the datatype.
struct Reduction {
  OpSlot* op = nullptr;
  DatatypeSlot* datatype = nullptr;
};

/// Begins one non-blocking collective: `begin(real, kept)` makes the lower call; *kept is arena
/// memory the lower half reads until the end, or null. Real handles are looked up inside `begin`,
/// because the rank may park, and come back in another process, before its turn has come.
template <typename Begin>
int collective_begin(CommSlot* comm, RequestSlot** handle, Begin begin, Reduction reduction = {}) {
  if (!live_comm(comm)) return kErrComm;
  CollectiveScope scope(comm, false);
  RequestSlot* const slot = request_slot_new();
  void* kept = nullptr;
  const int error = begin(&slot->real(), &kept);
  if (error) {
    arena_free(kept);
    request_slot_free(slot);
    return error;
  }
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kCollective, RequestState::kActive);
  const bool calls_back = reduction.op && op_of(reduction.op);
  request->owns = kept != nullptr || calls_back;
  request->comm = comm;
  request->kept_until_done = kept;
  request->object = calls_back ? reduction.op : nullptr;
  if (calls_back) {
    request->datatype = reduction.datatype;
    op_ref(reduction.op);
    (void)type_ref(reduction.datatype);
  }
  *handle = slot;
  return kSuccess;
}

// How many datatypes an alltoallw has in its two arrays, and how many the lower half may read. Open
// MPI 4.1 reads as many as a communicator with a topology has neighbours, in MPI_Ialltoallw too.
struct TypeCounts {
  int sends, receives;
  int send_room, receive_room;
};
using Lengths = void (*)(CommSlot* comm, int* sends, int* receives);

TypeCounts count_types(Lengths lengths, CommSlot* comm);

/// Fills `reals` with real handles; a predefined one stands where the application has none.
RealDatatype* real_types(DatatypeSlot* const* types, int count, RealDatatype* reals, int room);

}  // namespace fermata::mpi
