// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/isendrecv.h"

#include "frontend/callbacks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/requests.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/request_control.h"

namespace fermata::mpi {

int send_kept(void* packed, int bytes, int dest, int tag, CommSlot* comm) {
  RequestSlot* slot = nullptr;
  const int error =
      core::Isend(packed, bytes, front::predefined<kDatatype>(kPacked), dest, tag, comm, &slot);
  const LowerScope scope;
  if (error || request_of(slot)->kind == RequestKind::kCompleted) {
    arena_free(packed);
    return error;
  }
  Request* const request = request_of(slot);
  request->kept_until_done = packed;
  request->owns = true;
  request->holder = Holder::kNobody;
  if (request->state == RequestState::kActive) (void)complete_if_finished(slot);
  else may_leak(request_release_freed(slot));
  sweep_forgotten();
  return kSuccess;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Isendrecv(const void* sendbuf, int sendcount, DatatypeSlot* sendtype, int dest, int sendtag,
              void* recvbuf, int recvcount, DatatypeSlot* recvtype, int source, int recvtag,
              CommSlot* comm, RequestSlot** request) {
  int room = 0, bytes = 0, error = kSuccess;
  void* packed = nullptr;
  {
    const LowerScope scope;
    error = lower().Pack_size(sendcount, sendtype->real(), comm->real(), &room);
    if (error) return error;
    packed = arena_alloc(u64(room) + 1);
    error = lower().Pack(sendbuf, sendcount, sendtype->real(), packed, room, &bytes, comm->real());
  }
  if (!error) error = Irecv(recvbuf, recvcount, recvtype, source, recvtag, comm, request);
  if (!error) return send_kept(packed, bytes, dest, sendtag, comm);
  const LowerScope scope;
  arena_free(packed);
  return error;
}

int Isendrecv_replace(void* buf, int count, DatatypeSlot* datatype, int dest, int sendtag,
                      int source, int recvtag, CommSlot* comm, RequestSlot** request) {
  return Isendrecv(buf, count, datatype, dest, sendtag, buf, count, datatype, source, recvtag, comm,
                   request);
}

}  // namespace fermata::mpi::core
