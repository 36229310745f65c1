// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/request.h"

#include "mpi/handles/arena.h"
#include "mpi/handles/kept_arrays.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/references.h"
#include "mpi/p2p/partitioned.h"

namespace fermata::mpi {
namespace {

void kept_until_done_free(const Request* request) {
  arena_free(kept_arrays_free(request->kept_until_done));
  if (!request->object) return;
  if (request->object->kind == kComm) return comm_request_ended(slot_as<kComm>(request->object));
  op_unref(slot_as<kOp>(request->object));
  type_unref(request->datatype);
}

/// The first in progress of the collective reads and writes of a file, in the order in which all
/// members have begun them.
RequestSlot* first_in_file(const Slot* file) {
  RequestSlot* first = nullptr;
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    if (request->state != RequestState::kActive || !is_collective(request)) return;
    if (request->comm || request->object != file) return;
    if (!first || request->order < request_of(first)->order) first = slot;
  });
  return first;
}

bool complete_alone(RequestSlot* slot) {
  Request* const request = request_of(slot);
  if (FERMATA_UNLIKELY(request->holder == Holder::kThread)) return false;  // its thread sees to it
  int flag = 0;
  CanonStatus status{};
  status.source = request->peer;
  const int error = lower().Test(&slot->real(), &flag, &status);
  if (!flag && error == kSuccess) return false;
  record_finished(slot, status, error);
  if (request->holder == Holder::kNobody) may_leak(request_release_freed(slot));
  return true;
}

/// Whether a thread among others may wait inside the lower half while these call it.
bool may_wait_unlocked() {
  return state().gate.threads == Threads::kMultiple && !checkpoint_wanted();
}

/// Waits in the lower half with the core lock released, so that other threads get on meanwhile,
/// until the request has finished or a checkpoint is pending. Until then it is this thread's alone.
int wait_unlocked(RequestSlot* slot, int* flag, CanonStatus* status) {
  RealRequest real = slot->real();
  int error;
  request_of(slot)->holder = Holder::kThread;
  {
    const CoreUnlocked open;
    error = lower().wait(&real, flag, status);
  }
  request_of(slot)->holder = Holder::kProgram;
  slot->real() = real;
  return error;
}

}  // namespace

void ask_outcome(Request* request) {
  const Generalized* const calls = generalized_of(request);
  request->status = CanonStatus{};
  request->error =
      front::call_grequest_query(calls->query_fn, calls->extra_state, &request->status);
}

int generalized_end(Request* request) {
  Generalized* const calls = generalized_of(request);
  void* const free_fn = calls->free_fn;
  calls->free_fn = nullptr;
  return free_fn ? front::call_grequest_free(free_fn, calls->extra_state) : int(kSuccess);
}

void request_release_owned(Request* request) {
  if (request->kind == RequestKind::kGeneralized) (void)generalized_end(request);
  if (request->kind == RequestKind::kGeneralized) arena_free(request->generalized);
  else if (request->kind == RequestKind::kCollective) kept_until_done_free(request);
  else if (request->kind == RequestKind::kPersistentCollective)
    kept_collective_free(request);
  else if (request->kind == RequestKind::kPartitioned) partitioned_free(request);
  else if (request->kind == RequestKind::kSend && request->mode != SendMode::kSynchronous)
    arena_free(request->kept_until_done);  // isendrecv.h
  else if (request->kind == RequestKind::kSend)
    synchronous_end(request);
  else
    type_unref(request->datatype);
}

int request_release_freed(RequestSlot* slot) {
  Request* const request = request_of(slot);
  int error = kSuccess;
  if (request->mode == SendMode::kSynchronous) synchronous_end(request);
  if (request->kind == RequestKind::kPersistentRecv) take_own_request_back(slot);
  if (slot->real() && (request->state == RequestState::kActive || has_persistent_real(request)))
    error = lower().Request_free(&slot->real());
  if (request->kind == RequestKind::kGeneralized) error = generalized_end(request);
  request_release(slot);
  return error;
}

void note_culprit(const Request* request) {
  if (request->kind == RequestKind::kCompleted) return;
  Slot* object = request->comm;
  if (!object) {
    object = request->object;
  } else if (const Comm* const comm = comm_of(request->comm)) {
    if (comm->duplicate_of) object = comm->duplicate_of->slot;
    if (comm->dead) object = nullptr;
  }
  if (!front::tls_culprit) front::tls_culprit = object;
}

bool is_still_pending(RequestSlot* slot) {
  if (request_of(slot)->kind == RequestKind::kPartitioned) return partitioned_is_pending(slot);
  return request_of(slot)->kind == RequestKind::kGeneralized || receipt_is_missing(slot);
}

void record_finished(RequestSlot* slot, const CanonStatus& status, int error) {
  Request* const request = request_of(slot);
  complete(request, status, error);
  request->status = status;
  request->error = error;
  request->state = RequestState::kDone;
  const bool of_comm = request->kind == RequestKind::kCollective && request->object &&
                       request->object->kind == kComm;
  if (of_comm && request->holder != Holder::kNobody)
    comm_request_ended(slot_as<kComm>(request->object));
}

bool complete_if_finished(RequestSlot* slot) {
  const Request* const request = request_of(slot);
  if (FERMATA_UNLIKELY(is_of_file(request) && is_collective(request)))
    for (RequestSlot* first; (first = first_in_file(request->object)) != slot;)
      if (!complete_alone(first)) return false;
  return complete_alone(slot);
}

int wait_request_shared(RequestSlot** handle, CanonStatus* status) {
  for (Backoff backoff;; between_polls(backoff)) {
    bool done = false;
    const int error = may_wait_unlocked()
                          ? poll_request_by(wait_unlocked, handle, &done, status)
                          : poll_request(&MpiCalls::Test, handle, &done, status);
    if (FERMATA_LIKELY(done)) return error;
    safe_point({handle, 1});
  }
}

}  // namespace fermata::mpi
