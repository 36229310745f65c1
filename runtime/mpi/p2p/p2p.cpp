// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/p2p.h"

namespace fermata::mpi {

int send_registered(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                    CommSlot* comm) {
  RequestSlot* request = nullptr;
  const int error = send_begin(&MpiCalls::Isend, buf, count, datatype, dest, tag, comm, &request);
  return error ? error : wait_request(&request, nullptr);
}

bool receive_out_of_turn(RequestSlot* slot, int* error) {
  Request* const request = request_of(slot);
  *error = request->error = kSuccess;
  if (request->peer == kProcNull) {
    request->status = proc_null_status();
    request->state = RequestState::kDone;
    return true;
  }
  Comm* const comm = comm_of(request->comm);
  UnexpectedMessage* const kept =
      comm ? unexpected_match(comm, request->peer, request->tag) : nullptr;
  if (!kept) return false;
  if (kept->state == UnexpectedState::kHeld) {
    *error = unexpected_receive(kept, slot);
    return true;
  }
  request->error = unexpected_deliver(kept, request->buffer, request->count,
                                      request->datatype->real(), &request->status);
  request->state = RequestState::kDone;
  return true;
}

int receive_registered(void* buf, int count, DatatypeSlot* datatype, int source, int tag,
                       CommSlot* comm, RealRequest posted_real, CanonStatus* status) {
  RequestSlot* slot = request_slot_new();
  fill_recipe(request_of(slot), RequestKind::kRecv, buf, count, datatype, source, tag, comm);
  int error = kSuccess;
  if (posted_real) {
    slot->real() = posted_real;
    request_of(slot)->order = ++state().p2p.post_order;
  } else {
    error = post_receive(slot);
  }
  if (error) {
    request_release(slot);
    return error;
  }
  if (checkpoint_wanted()) safe_point();
  return wait_request(&slot, status);
}

}  // namespace fermata::mpi
