// SPDX-License-Identifier: Apache-2.0
// Persistent requests and the buffer of MPI_Bsend.
//
// A persistent request is its own recipe. An inactive one is made again at a restart by the same
// *_init call; an active send has ended before the image was cut; an active receive is made and
// started again in its turn among the posted receives.
#pragma once

#include "mpi/p2p/sendrecv.h"

namespace fermata::mpi {

/// Makes the real persistent request that the recipe describes.
inline int make_persistent(Slot* slot) {
  Request* const r = request_of(slot);
  const u64 type = r->datatype->real;
  const u64 comm = r->comm->real;
  if (r->kind == RequestKind::kPersistentRecv) {
    r->mode = SendMode::kStandard;
    return lower().Recv_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real);
  }
  switch (r->mode) {
    case SendMode::kBuffered:
      return lower().Bsend_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real);
    case SendMode::kSynchronous:
      return lower().Ssend_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real);
    case SendMode::kReady:  // see Rsend
    case SendMode::kMatched:
    case SendMode::kStandard: break;
  }
  return lower().Send_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real);
}

inline int persistent_new(RequestKind kind, SendMode mode, const void* buf, int count,
                          Slot* datatype, int peer, int tag, Slot* comm, Slot** handle) {
  LowerScope scope;
  Slot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  fill_recipe(request, kind, const_cast<void*>(buf), count, datatype, peer, tag, comm);
  request->mode = mode;
  request->state = RequestState::kInactive;
  const int error = make_persistent(slot);
  if (error) {
    request_release(slot);
    return error;
  }
  *handle = slot;
  return kSuccess;
}

int kept_collective_start(Slot* slot);  // persistent_collectives.h
int partitioned_start(Slot* slot);      // partitioned.h

inline int persistent_start(Slot* slot) {
  if (is_null_request(slot)) return kErrRequest;
  Request* const request = request_of(slot);
  if (!is_persistent(request) || request->state != RequestState::kInactive) return kErrRequest;
  if (request->kind == RequestKind::kPersistentCollective) return kept_collective_start(slot);
  if (request->kind == RequestKind::kPartitioned) return partitioned_start(slot);
  request->order = ++state().post_order;
  request->cancelled = false;
  request->wants_status = is_receive(request) && request->peer == kAnySource;
  int error;
  if (request->kind == RequestKind::kPersistentRecv &&
      !lower_alone(comm_of(request->comm), request->peer) && receive_out_of_turn(slot, &error))
    return error;
  error = lower().Start(&slot->real);
  if (error) note_culprit(request);
  if (error) return error;
  request->state = RequestState::kActive;
  if (is_receive(request)) return kSuccess;
  request->polled = false;
  count_request(request, request->comm, request->peer, request->tag);
  if (request->mode == SendMode::kSynchronous) synchronous_begin(slot, request->comm, request->tag);
  return kSuccess;
}

namespace core {

inline int Send_init(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                     Slot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kStandard, buf, count, datatype,
                        dest, tag, comm, request);
}
inline int Bsend_init(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                      Slot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kBuffered, buf, count, datatype,
                        dest, tag, comm, request);
}
inline int Ssend_init(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                      Slot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kSynchronous, buf, count, datatype,
                        dest, tag, comm, request);
}
inline int Rsend_init(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                      Slot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kReady, buf, count, datatype, dest,
                        tag, comm, request);
}
inline int Recv_init(void* buf, int count, Slot* datatype, int source, int tag, Slot* comm,
                     Slot** request) {
  return persistent_new(RequestKind::kPersistentRecv, SendMode::kStandard, buf, count, datatype,
                        source, tag, comm, request);
}

inline int Start(Slot** request) {
  LowerScope scope;
  return persistent_start(*request);
}
inline int Startall(int count, RequestList list) {
  LowerScope scope;
  for (int i = 0; i < count; i++)
    if (const int error = persistent_start(list.get(i))) return error;
  return kSuccess;
}

// The buffer is application memory and comes back with the image; only the lower half's knowledge
// of it must be renewed. Everything in it has been delivered when an image is cut.
inline int buffer_attach_lower(void* buffer, int size) {
  LowerScope scope;
  const int error = lower().Buffer_attach(buffer, size);
  if (error) return error;
  state().attached_buffer = buffer;
  state().attached_bytes = size;
  return kSuccess;
}
inline int buffer_detach_lower(void* buffer_address, int* size) {
  LowerScope scope;
  int error;
  {
    const Sending sending(kSendingToAny);  // it waits until all that is buffered has been taken
    const BlockingCall open;
    error = lower().Buffer_detach(buffer_address, size);
  }
  if (error) return error;
  state().attached_buffer = nullptr;
  state().attached_bytes = 0;
  return kSuccess;
}

}  // namespace core
}  // namespace fermata::mpi
