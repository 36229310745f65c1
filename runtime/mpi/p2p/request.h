// SPDX-License-Identifier: Apache-2.0
// Requests: made, completed, waited for.
//
// A request the application holds is a slot; its real request may be finished behind the
// application's back while a checkpoint drains, and made again after a restart. Waiting is
// therefore always a loop over the lower half's Test functions: between two polls the rank may
// stop, and what it waits for is looked up anew after that. Nothing is allocated on the way.
//
// Invariant: a message that is received by a request is counted exactly once, where the request
//            leaves kActive (complete() below), whether the application or the draining finds it
//            finished. Those that are held or kept: unexpected.h. Checked as a whole: what was sent
//            to a rank that is saved is what it has received (check_drained).
#pragma once

#include "base/backoff.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/receipts.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {

// The application's callbacks of a generalized request.
struct Generalized {
  void* query_fn;
  void* free_fn;
  void* cancel_fn;
  void* extra_state;
};

inline Generalized* generalized_of(const Request* request) { return request->generalized; }

[[gnu::cold]] void ask_outcome(Request* request);

/// How a request ended that has finished in the core state: its error class; the status is in it.
[[gnu::always_inline]] inline int outcome_of(Request* request) {
  if (FERMATA_UNLIKELY(request->kind == RequestKind::kGeneralized)) ask_outcome(request);
  return request->error;
}

/// Calls the application's free function, once. Its error is the call's that ends the request.
[[gnu::cold]] int generalized_end(Request* request);

/// outcome_of() where the request is released thereafter.
[[gnu::always_inline]] inline int last_outcome_of(Request* request) {
  const int error = outcome_of(request);
  if (FERMATA_LIKELY(request->kind != RequestKind::kGeneralized)) return error;
  const int last = generalized_end(request);
  return error ? error : last;
}

[[gnu::cold]] void request_release_owned(Request* request);

[[gnu::always_inline]] inline void request_release(RequestSlot* slot) {
  Request* const request = request_of(slot);
  if (FERMATA_UNLIKELY(request->owns)) request_release_owned(request);
  request_slot_free(slot);
}

/// Of a request that the application has freed: it ends with its real request, if that still is.
int request_release_freed(RequestSlot* slot);

/// Records a real request that has just finished with this status and error class.
inline void complete(Request* request, const CanonStatus& status, int error) {
  if (!is_receive(request) || status.internal[2]) return;
  if (FERMATA_UNLIKELY(error != kSuccess && error != kErrTruncate)) return;
  // In an error the lower half may leave the source alone.
  const i32 source = error && request->peer != kAnySource ? request->peer : status.source;
  count_received(comm_of(request->comm), source);
}

/// An error of this request is about to be returned: the error handler that counts is that of its
/// communicator, window or file. The first one of a call counts.
[[gnu::cold]] void note_culprit(const Request* request);

/// What the application sees of a finished request: its handle becomes null, or inactive.
[[gnu::always_inline]] inline void release_handle(RequestSlot** handle) {
  RequestSlot* const slot = *handle;
  Request* const request = request_of(slot);
  if (FERMATA_UNLIKELY(request->kind >= RequestKind::kPersistentSend)) {
    if (request->kind != RequestKind::kCompleted) {
      if (request->mode == SendMode::kSynchronous) synchronous_end(request);
      take_own_request_back(slot);
      request->state = RequestState::kInactive;
      return;
    }
  } else {
    request_release(slot);
  }
  *handle = state().handles.null_request;
}

[[gnu::always_inline]] inline bool is_null_request(const RequestSlot* slot) {
  return slot == nullptr || slot->index == kRequestNull;
}

/// True if waiting for it returns at once with an empty status.
inline bool is_idle(const RequestSlot* slot) {
  return slot == nullptr ||
         static_cast<const Request*>(slot->object)->state == RequestState::kInactive;
}

/// complete() for a request that was completed without a status.
inline void complete_unseen(const Request* request) {
  if (is_receive(request)) count_received(comm_of(request->comm), request->peer);
}

/// Of a request that is kPending.
bool is_still_pending(RequestSlot* slot);

using LowerPoll = int (*)(RealRequest*, int*, CanonStatus*);

/// Polls one active request and records it if it has finished. Returns true if it has.
/// MPICH gets on with a file's collective request where that is polled, by collective calls of its
/// own: so every member polls them in the same order.
bool complete_if_finished(RequestSlot* slot);

/// Asks the lower half for one request: poll(slot, &flag, status). `*done`: it has finished,
/// `*status` (may be null) is its status, the handle is released. Returns the request's error
/// class.
template <typename Poll>
[[gnu::always_inline]] inline int poll_request_by(Poll poll, RequestSlot** handle, bool* done,
                                                  CanonStatus* status) {
  RequestSlot* const slot = *handle;
  Request* const request = request_of(slot);
  *done = true;
  if (FERMATA_UNLIKELY(is_of_file(request)) && request->state == RequestState::kActive &&
      !complete_if_finished(slot)) {
    *done = false;
    return kSuccess;
  }
  if (FERMATA_LIKELY(request->state == RequestState::kActive)) {
    int flag = 0;
    CanonStatus local;
    // Among threads: another one may cancel it while this one waits with the core lock released.
    if (!status && (request->wants_status || core_is_shared())) status = &local;
    if (status) {
      status->source = request->peer;  // should the lower half leave it alone in an error
      status->internal[2] = 0;
    }
    const int error = poll(slot, &flag, status);
    if (FERMATA_UNLIKELY(!flag && error == kSuccess)) {
      *done = false;
      return kSuccess;
    }
    if (status) complete(request, *status, error);
    else complete_unseen(request);
    if (FERMATA_UNLIKELY(error != kSuccess)) note_culprit(request);
    release_handle(handle);
    return error;
  }
  if (FERMATA_UNLIKELY(request->state == RequestState::kPending) && is_still_pending(slot)) {
    poke_lower();  // what else is under way is to get on all the same
    *done = false;
    return kSuccess;
  }
  const int error = last_outcome_of(request);
  if (status) *status = request->status;
  if (FERMATA_UNLIKELY(error != kSuccess)) note_culprit(request);
  release_handle(handle);
  return error;
}

/// Likewise, once (MpiCalls::Test) or until it has finished or a checkpoint is pending
/// (MpiCalls::wait).
[[gnu::always_inline]] inline int poll_request(LowerPoll MpiCalls::*poll, RequestSlot** handle,
                                               bool* done, CanonStatus* status) {
  const auto ask = [poll](RequestSlot* slot, int* flag, CanonStatus* got) {
    return (lower().*poll)(&slot->real(), flag, got);
  };
  return poll_request_by(ask, handle, done, status);
}

/// Records an active request that the lower half has finished, for whoever asks for it.
void record_finished(RequestSlot* slot, const CanonStatus& status, int error);

inline bool checkpoint_wanted() {
  return FERMATA_UNLIKELY(__atomic_load_n(&crossing().pending, __ATOMIC_RELAXED) != 0);
}

/// These have been tested in vain: the program continues when one has finished, so it waits for
/// them even if it does other things meanwhile.
inline void note_polled(RequestSlot* slot) {
  if (checkpoint_wanted() && !is_idle(slot)) request_of(slot)->polled = true;
}
inline void note_polled(front::RequestList list, i32 count) {
  for (i32 i = 0; checkpoint_wanted() && i < count; i++) note_polled(list.get(i));
}

/// wait_request() where other threads may be inside MPI.
int wait_request_shared(RequestSlot** handle, CanonStatus* status);

/// Waits for one request that is not idle. The gate is held.
[[gnu::always_inline]] inline int wait_request(RequestSlot** handle, CanonStatus* status) {
  if (core_is_shared()) return wait_request_shared(handle, status);
  for (Backoff backoff;; between_polls_alone(backoff)) {
    bool done = false;
    const int error = poll_request(&MpiCalls::wait, handle, &done, status);
    if (FERMATA_LIKELY(done)) return error;
    safe_point({handle, 1});
  }
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Wait(RequestSlot** request, CanonStatus* status) {
  LowerScope scope;
  if (is_idle(*request)) {
    if (status) *status = empty_status();
    return kSuccess;
  }
  return wait_request(request, status);
}

inline int Test(RequestSlot** request, int* flag, CanonStatus* status) {
  LowerScope scope;
  if (is_idle(*request)) {
    if (status) *status = empty_status();
    *flag = 1;
    return kSuccess;
  }
  bool done = false;
  const int error = poll_request(&MpiCalls::Test, request, &done, status);
  *flag = done;
  if (!done) note_polled(*request);
  return error;
}

}  // namespace fermata::mpi::core
