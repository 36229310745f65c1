// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/matched.h"

#include "base/backoff.h"
#include "frontend/callbacks.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {
namespace {

/// Begins to receive a matched message that is held; its handle becomes null.
int receive_matched_held(void* buf, int count, DatatypeSlot* datatype, MessageSlot** message,
                         RequestSlot** handle) {
  UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>((*message)->object);
  RequestSlot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  fill_recipe(request, RequestKind::kRecv, buf, count, datatype, kept->source, kept->tag,
              kept->comm->slot);
  request->order = ++state().p2p.post_order;
  const int error = unexpected_receive(kept, slot);
  if (error) note_culprit(request);
  if (error) request_release(slot);
  else *handle = slot;
  if (error && error != kErrTruncate) return error;
  slot_free(*message);
  *message = null_of<kMessage>();
  return error;
}
/// Receives one in one call of the lower half. Its sender has begun to send it, so this ends also
/// where a checkpoint is pending.
int receive_matched_now(void* buf, int count, DatatypeSlot* datatype, MessageSlot** message,
                        CanonStatus* status) {
  UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>((*message)->object);
  const int error = lower().Mrecv(buf, count, datatype->real(), &kept->real.message, status);
  if (error) front::tls_culprit = kept->comm->slot;
  if (error && error != kErrTruncate) return error;
  state().p2p.unexpected_matched--;
  give_receipt(kept);
  unexpected_free(kept);
  slot_free(*message);
  *message = null_of<kMessage>();
  return error;
}
/// What a message handle stands for; null for MPI_MESSAGE_NULL and MPI_MESSAGE_NO_PROC.
const UnexpectedMessage* unexpected_of(const MessageSlot* message) {
  if (is_null(message, kMessageNull) || message->index == kMessageNoProc) return nullptr;
  return static_cast<const UnexpectedMessage*>(message->object);
}
CommSlot* comm_of_message(const MessageSlot* message) {
  const UnexpectedMessage* const kept = unexpected_of(message);
  return kept ? kept->comm->slot : nullptr;
}
bool is_matched_held(const MessageSlot* message) {
  const UnexpectedMessage* const kept = unexpected_of(message);
  return kept && kept->state == UnexpectedState::kHeld;
}

}  // namespace

int probe_matched(int source, int tag, CommSlot* comm, int* flag, MessageSlot** message,
                  CanonStatus* status) {
  Comm* const c = comm_of(comm);
  if (source == kProcNull) {
    *flag = 1;
    *message = front::predefined<kMessage>(kMessageNoProc);
    *status = proc_null_status();
    return kSuccess;
  }
  UnexpectedMessage* kept = c && c->unexpected_first ? unexpected_match(c, source, tag) : nullptr;
  if (FERMATA_LIKELY(kept == nullptr)) {
    RealMessage real{};
    const int error = lower().Improbe(source, tag, comm->real(), flag, &real, status);
    if (error || !*flag) return error;
    *message = slot_new<kMessage>(unexpected_new_matched(c, real, *status));
    return kSuccess;
  }
  *flag = 1;
  *status = unexpected_status(kept);
  if (kept->state == UnexpectedState::kHeld && is_too_large(kept->bytes)) {
    unexpected_match_held(kept);
  } else {
    if (const int error = unexpected_complete(kept)) return error;
    unexpected_unlink(kept);
    give_receipt(kept);
  }
  *message = slot_new<kMessage>(kept);
  return kSuccess;
}

int receive_matched(void* buf, int count, DatatypeSlot* datatype, MessageSlot** message,
                    CanonStatus* status) {
  if (is_null(*message, kMessageNull)) return kErrRequest;
  if ((*message)->index == kMessageNoProc) {
    *message = null_of<kMessage>();
    *status = proc_null_status();
    return kSuccess;
  }
  UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>((*message)->object);
  // One that is held, or an attempt that was given up before it was whole.
  int error = unexpected_complete(kept);
  if (error) front::tls_culprit = kept->comm->slot;
  if (error) return error;
  *status = unexpected_status(kept);
  error = kept->error;
  if (!error) error = unpack_bytes(kept->data, kept->bytes, buf, count, datatype->real(), status);
  if (error) front::tls_culprit = kept->comm->slot;
  unexpected_free(kept);
  slot_free(*message);
  *message = null_of<kMessage>();
  return error;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Improbe(int source, int tag, CommSlot* comm, int* flag, MessageSlot** message,
            CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  *flag = 0;
  *message = null_of<kMessage>();
  return probe_matched(source, tag, comm, flag, message, status ? status : &local);
}
int Mprobe(int source, int tag, CommSlot* comm, MessageSlot** message, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  Backoff backoff;
  for (;;) {
    int flag = 0;
    const int error =
        probe_matched(source, tag, comm, &flag, message, status ? status : &local);
    if (flag || error) return error;
    if (checkpoint_wanted()) safe_point({nullptr, 0, comm_of(comm), source});
    between_polls(backoff);
  }
}
int Mrecv(void* buf, int count, DatatypeSlot* datatype, MessageSlot** message,
          CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  if (is_matched_held(*message) && !core_is_shared())
    return receive_matched_now(buf, count, datatype, message, status);
  if (is_matched_held(*message)) {
    RequestSlot* request = nullptr;
    const int error = receive_matched_held(buf, count, datatype, message, &request);
    return error ? error : wait_request(&request, status);
  }
  return receive_matched(buf, count, datatype, message, status ? status : &local);
}
int Imrecv(void* buf, int count, DatatypeSlot* datatype, MessageSlot** message,
           RequestSlot** handle) {
  LowerScope scope;
  if (is_matched_held(*message))
    return receive_matched_held(buf, count, datatype, message, handle);
  RequestSlot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  fill_recipe(request, RequestKind::kRecv, buf, count, datatype, kProcNull, kAnyTag, nullptr);
  request->object = nullptr;
  request->state = RequestState::kDone;
  request->comm = comm_of_message(*message);
  request->error = receive_matched(buf, count, datatype, message, &request->status);
  front::tls_culprit = nullptr;  // the error is that of the request
  *handle = slot;
  return kSuccess;
}

}  // namespace fermata::mpi::core
