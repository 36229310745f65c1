// SPDX-License-Identifier: Apache-2.0
// The end of a communicator. MPI_Comm_free is collective, but programs count on it to wait for
// nobody: the members of a ring free theirs in any order. So the barrier that an entry of the clock
// must outlast (clock.h, second invariant) is a non-blocking one, a request that the application
// never sees. The communicator is there until it ends: it is polled where communicators are made or
// freed, in a checkpoint, which no image is cut before, and in MPI_Finalize.
#pragma once

#include "mpi/comms/idup.h"

namespace fermata::mpi {

/// Begins the end of a communicator. False if the members have to wait for each other in it: they
/// agree about duplicates then (persistent_collectives.h), or one is outside the job.
/// Preconditions: the call has been counted.
inline bool leave(Slot* comm) {
  Comm* const c = comm_of(comm);
  bool has_duplicates = false;
  for (const Comm* other = state().comms; other; other = other->next)
    has_duplicates |= other->duplicate_of == c;
  if (c->outside || has_duplicates) return false;
  Slot* const slot = request_slot_new();
  if (lower().Ibarrier(comm->real, &slot->real)) {
    request_slot_free(slot);
    return false;
  }
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kCollective, RequestState::kActive);
  request->forgotten = true;
  request->owns = true;
  request->comm = comm;
  request->peer = kUndefined;
  request->object = comm;
  request->kept_until_done = nullptr;
  c->leaving = true;
  comm->flags |= kSlotLeft;
  state().leaving++;
  (void)settle_if_finished(slot);
  return true;
}

/// Ends those communicators that all members have freed by now.
inline void sweep_leaving() {
  if (FERMATA_LIKELY(state().leaving == 0)) return;
  for_each_live(kRequest, [](Slot* slot) {
    const Request* const request = request_of(slot);
    const bool leaves = request->kind == RequestKind::kCollective && request->forgotten &&
                        request->object && request->object->kind == kComm;
    if (leaves && request->state == RequestState::kActive) (void)settle_if_finished(slot);
  });
}

/// In MPI_Finalize, which every member comes to.
inline void await_leaving() {
  while (state().leaving) {
    sweep_leaving();
    (void)sys::call(SYS_sched_yield);
  }
}

/// A request that makes or ends this communicator has come to its end.
inline void comm_request_ended(Slot* comm) {
  Comm* const c = comm_of(comm);
  if (!c->leaving) return idup_finish(comm);
  state().leaving--;
  c->leaving = false;
  c->ending = true;
  (void)lower().Comm_free(&comm->real);
  comm_forget(comm);
}

}  // namespace fermata::mpi
