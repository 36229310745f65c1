// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/persistent.h"

#include "halves/crossing.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

int make_persistent(RequestSlot* slot) {
  Request* const r = request_of(slot);
  const RealDatatype type = r->datatype->real();
  const RealComm comm = r->comm->real();
  if (r->kind == RequestKind::kPersistentRecv) {
    r->receive_mode = ReceiveMode::kPosted;
    return lower().Recv_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real());
  }
  switch (r->mode) {
    case SendMode::kBuffered:
      return lower().Bsend_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real());
    case SendMode::kSynchronous:
      return lower().Ssend_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real());
    case SendMode::kReady:  // see Rsend
    case SendMode::kStandard: break;
  }
  return lower().Send_init(r->buffer, r->count, type, r->peer, r->tag, comm, &slot->real());
}

int persistent_new(RequestKind kind, SendMode mode, const void* buf, int count,
                   DatatypeSlot* datatype, int peer, int tag, CommSlot* comm,
                   RequestSlot** handle) {
  LowerScope scope;
  RequestSlot* const slot = request_slot_new();
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

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Send_init(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag, CommSlot* comm,
              RequestSlot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kStandard, buf, count, datatype,
                        dest, tag, comm, request);
}
int Bsend_init(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
               CommSlot* comm, RequestSlot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kBuffered, buf, count, datatype,
                        dest, tag, comm, request);
}
int Ssend_init(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
               CommSlot* comm, RequestSlot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kSynchronous, buf, count, datatype,
                        dest, tag, comm, request);
}
int Rsend_init(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
               CommSlot* comm, RequestSlot** request) {
  return persistent_new(RequestKind::kPersistentSend, SendMode::kReady, buf, count, datatype, dest,
                        tag, comm, request);
}
int Recv_init(void* buf, int count, DatatypeSlot* datatype, int source, int tag, CommSlot* comm,
              RequestSlot** request) {
  return persistent_new(RequestKind::kPersistentRecv, SendMode::kStandard, buf, count, datatype,
                        source, tag, comm, request);
}

// The buffer is application memory and comes back with the image; only the lower half's knowledge
// of it must be renewed. Everything in it has been delivered when an image is cut.
int buffer_attach_lower(void* buffer, int size) {
  LowerScope scope;
  const int error = lower().Buffer_attach(buffer, size);
  if (error) return error;
  state().p2p.attached_buffer = buffer;
  state().p2p.attached_bytes = size;
  return kSuccess;
}
int buffer_detach_lower(void* buffer_address, int* size) {
  LowerScope scope;
  int error;
  {
    const Sending sending(kSendingToAny);  // it waits until all that is buffered has been taken
    const BlockingCall open;
    error = lower().Buffer_detach(buffer_address, size);
  }
  if (error) return error;
  state().p2p.attached_buffer = nullptr;
  state().p2p.attached_bytes = 0;
  return kSuccess;
}

}  // namespace fermata::mpi::core
