// SPDX-License-Identifier: Apache-2.0
// Generalized requests: begun and completed by the application, in the upper half alone. The
// application's callbacks are upper code and come back with the image.
//
// Invariant: such a request is kPending until MPI_Grequest_complete, then kDone; never kActive.
//            Checked where a rank is saved: nothing but receives is active then.
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/request.h"

namespace fermata::mpi::core {

int Grequest_start(void* query_fn, void* free_fn, void* cancel_fn, void* extra_state,
                   RequestSlot** handle) {
  LowerScope scope;
  Generalized* const calls = arena_new<Generalized>();
  *calls = Generalized{query_fn, free_fn, cancel_fn, extra_state};
  RequestSlot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kGeneralized, RequestState::kPending);
  request->owns = true;
  request->comm = nullptr;
  request->object = nullptr;
  request->generalized = calls;
  *handle = slot;
  return kSuccess;
}

int Grequest_complete(RequestSlot* slot) {
  LowerScope scope;
  if (is_null_request(slot)) return kErrRequest;
  Request* const request = request_of(slot);
  if (request->kind != RequestKind::kGeneralized || request->state != RequestState::kPending)
    return kErrRequest;
  request->state = RequestState::kDone;
  if (request->holder != Holder::kNobody) return kSuccess;
  const int error = last_outcome_of(request);
  release_handle(&slot);
  return error;
}

}  // namespace fermata::mpi::core
