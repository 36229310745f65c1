// SPDX-License-Identifier: Apache-2.0
// Persistent requests and the buffer of MPI_Bsend.
//
// A persistent request is its own recipe. An inactive one is made again at a restart by the same
// *_init call; an active send has ended before the image was cut; an active receive is made and
// started again in its turn among the posted receives.
#pragma once

#include "frontend/callbacks.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/partitioned.h"
#include "mpi/p2p/receipts.h"
#include "mpi/p2p/request.h"

namespace fermata::mpi {

/// Makes the real persistent request that the recipe describes.
int make_persistent(RequestSlot* slot);

int persistent_new(RequestKind kind, SendMode mode, const void* buf, int count,
                   DatatypeSlot* datatype, int peer, int tag, CommSlot* comm, RequestSlot** handle);

inline int persistent_start(RequestSlot* slot) {
  if (is_null_request(slot)) return kErrRequest;
  Request* const request = request_of(slot);
  if (!is_persistent(request) || request->state != RequestState::kInactive) return kErrRequest;
  if (request->kind == RequestKind::kPersistentCollective) return kept_collective_start(slot);
  if (request->kind == RequestKind::kPartitioned) return partitioned_start(slot);
  request->order = ++state().p2p.post_order;
  request->wants_status = is_receive(request) && request->peer == kAnySource;
  int error;
  if (request->kind == RequestKind::kPersistentRecv &&
      !lower_alone(comm_of(request->comm), request->peer) && receive_out_of_turn(slot, &error))
    return error;
  error = lower().Start(&slot->real());
  if (error) note_culprit(request);
  if (error) return error;
  request->state = RequestState::kActive;
  if (is_receive(request)) return kSuccess;
  request->polled = false;
  count_request(request, request->comm, request->peer, request->tag);
  if (request->mode == SendMode::kSynchronous) synchronous_begin(slot, request->comm, request->tag);
  return kSuccess;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Start(RequestSlot** request) {
  LowerScope scope;
  return persistent_start(*request);
}
inline int Startall(int count, front::RequestList list) {
  LowerScope scope;
  for (int i = 0; i < count; i++)
    if (const int error = persistent_start(list.get(i))) return error;
  return kSuccess;
}

// The buffer is application memory and comes back with the image; only the lower half's knowledge
// of it must be renewed. Everything in it has been delivered when an image is cut.
int buffer_attach_lower(void* buffer, int size);

int buffer_detach_lower(void* buffer_address, int* size);

}  // namespace fermata::mpi::core
