// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/request_control.h"

#include "frontend/callbacks.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/receipts.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {

void sweep_forgotten() {
  constexpr u32 kFew = 64;
  Core& core = state();
  if (++core.p2p.forgotten < core.p2p.forgotten_room) return;
  u32 left = 0;
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    if (request->holder != Holder::kNobody) return;
    if (request->state == RequestState::kActive) left += !complete_if_finished(slot);
    else if (request->state == RequestState::kDone) may_leak(request_release_freed(slot));
    else left += request->kind == RequestKind::kGeneralized || receipt_is_missing(slot);
  });
  core.p2p.forgotten = left;
  core.p2p.forgotten_room = 2 * left + kFew;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {
namespace {

/// True of a partitioned one that has not come to its end.
bool is_still_started(RequestSlot* slot) {
  const Request* const request = request_of(slot);
  return request->kind == RequestKind::kPartitioned && request->state == RequestState::kPending &&
         is_still_pending(slot);
}

}  // namespace

int Request_get_status(RequestSlot* slot, int* flag, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  if (!status) status = &local;
  *flag = 1;
  if (is_idle(slot)) {
    *status = empty_status();
    return kSuccess;
  }
  Request* const request = request_of(slot);
  if (is_of_file(request) && request->state == RequestState::kActive) {
    *flag = complete_if_finished(slot);
    if (!*flag) return kSuccess;
  }
  if (request->state == RequestState::kActive) {
    int done = 0;
    const int error = lower().Test(&slot->real(), &done, status);
    *flag = done || error;
    if (!*flag) note_polled(slot);
    if (!*flag) return kSuccess;
    record_finished(slot, *status, error);
  }
  *flag = request->state == RequestState::kDone || !is_still_pending(slot);
  if (*flag) (void)outcome_of(request);
  *status = request->status;
  return kSuccess;  // the error itself is reported where the request is completed
}

int Request_free(RequestSlot** handle) {
  LowerScope scope;
  if (is_null_request(*handle)) return kErrRequest;
  RequestSlot* const slot = *handle;
  Request* const request = request_of(slot);
  const bool is_started = request->kind == RequestKind::kPersistentCollective
                              ? request->state == RequestState::kActive
                              : is_still_started(slot);
  if (is_started) return kErrRequest;  // MPI forbids it
  *handle = null_of<kRequest>();
  if (request->kind == RequestKind::kCompleted) return kSuccess;
  if (request->state == RequestState::kPending ||
      (request->state == RequestState::kActive && is_receive(request))) {
    // It may still receive; the draining must see and count that.
    request->holder = Holder::kNobody;
    sweep_forgotten();
    return kSuccess;
  }
  return request_release_freed(slot);
}

int Cancel(RequestSlot** handle) {
  LowerScope scope;
  if (is_null_request(*handle)) return kErrRequest;
  const Request* const request = request_of(*handle);
  if (request->kind == RequestKind::kGeneralized) {
    const Generalized* const calls = generalized_of(request);
    return front::call_grequest_cancel(calls->cancel_fn, calls->extra_state,
                                       request->state == RequestState::kDone);
  }
  if (request->state != RequestState::kActive || request->receive_mode == ReceiveMode::kHeld)
    return kSuccess;  // too late
  request_of(*handle)->wants_status = true;
  return lower().Cancel(&(*handle)->real());
}

int Test_cancelled(const CanonStatus* status, int* flag) {
  *flag = status->internal[2] != 0;
  return kSuccess;
}

int Status_set_cancelled(CanonStatus* status, int flag) {
  status->internal[2] = flag != 0;
  return kSuccess;
}

}  // namespace fermata::mpi::core
