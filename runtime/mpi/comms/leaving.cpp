// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/leaving.h"

#include "mpi/comms/comms.h"
#include "mpi/comms/idup.h"
#include "mpi/gate/hooks.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/request.h"
#include "sys/sys.h"

namespace fermata::mpi {

bool leave(CommSlot* comm) {
  Comm* const c = comm_of(comm);
  bool has_duplicates = false;
  for (const Comm* other = state().comms.live; other; other = other->next)
    has_duplicates |= other->duplicate_of == c;
  if (c->outside || has_duplicates) return false;
  RequestSlot* const slot = request_slot_new();
  if (lower().Ibarrier(comm->real(), &slot->real())) {
    request_slot_free(slot);
    return false;
  }
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kCollective, RequestState::kActive);
  request->holder = Holder::kNobody;
  request->owns = true;
  request->comm = comm;
  request->peer = kUndefined;
  request->object = comm;
  request->kept_until_done = nullptr;
  c->leaving = true;
  comm->flags |= kSlotLeft;
  state().comms.leaving++;
  (void)complete_if_finished(slot);
  return true;
}

void sweep_leaving() {
  if (FERMATA_LIKELY(state().comms.leaving == 0)) return;
  for_each_live<kRequest>([](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    const bool leaves = request->kind == RequestKind::kCollective &&
                        request->holder == Holder::kNobody && request->object &&
                        request->object->kind == kComm;
    if (leaves && request->state == RequestState::kActive) (void)complete_if_finished(slot);
  });
}

void await_leaving() {
  while (state().comms.leaving) {
    sweep_leaving();
    (void)sys::call(SYS_sched_yield);
  }
}

/// A request that makes or ends this communicator has come to its end.
void comm_request_ended(CommSlot* comm) {
  Comm* const c = comm_of(comm);
  if (!c->leaving) return idup_finish(comm);
  state().comms.leaving--;
  c->leaving = false;
  c->ending = true;
  may_leak(lower().Comm_free(&comm->real()));  // the program has been told of its end
  comm_forget(comm);
}

}  // namespace fermata::mpi
