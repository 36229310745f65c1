// SPDX-License-Identifier: Apache-2.0
// MPI_Isendrecv and MPI_Isendrecv_replace: one request for a send and a receive. What is sent is
// packed first and kept by the send, a request that the application never sees, so the request that
// it waits for is the receive's alone, and its buffers are its own when that has ended.
#pragma once

#include "mpi/p2p/request_control.h"

namespace fermata::mpi {

/// Sends `bytes` packed bytes from arena memory, which is freed when they have gone.
inline int send_kept(void* packed, int bytes, int dest, int tag, Slot* comm) {
  Slot* slot = nullptr;
  const int error =
      core::Isend(packed, bytes, front::predefined(kDatatype, kPacked), dest, tag, comm, &slot);
  const LowerScope scope;
  if (error || request_of(slot)->kind == RequestKind::kCompleted) {
    arena_free(packed);
    return error;
  }
  Request* const request = request_of(slot);
  request->kept_until_done = packed;
  request->owns = true;
  request->forgotten = true;
  if (request->state == RequestState::kActive) (void)settle_if_finished(slot);
  else (void)request_drop(slot);
  sweep_forgotten();
  return kSuccess;
}

namespace core {

inline int Isendrecv(const void* sendbuf, int sendcount, Slot* sendtype, int dest, int sendtag,
                     void* recvbuf, int recvcount, Slot* recvtype, int source, int recvtag,
                     Slot* comm, Slot** request) {
  int room = 0, bytes = 0;
  if (const int error = Pack_size(sendcount, sendtype, comm, &room)) return error;
  void* packed = nullptr;
  {
    const LowerScope scope;
    packed = arena_alloc(u64(room) + 1);
  }
  int error = Pack(sendbuf, sendcount, sendtype, packed, room, &bytes, comm);
  if (!error) error = Irecv(recvbuf, recvcount, recvtype, source, recvtag, comm, request);
  if (!error) return send_kept(packed, bytes, dest, sendtag, comm);
  const LowerScope scope;
  arena_free(packed);
  return error;
}

inline int Isendrecv_replace(void* buf, int count, Slot* datatype, int dest, int sendtag,
                             int source, int recvtag, Slot* comm, Slot** request) {
  return Isendrecv(buf, count, datatype, dest, sendtag, buf, count, datatype, source, recvtag, comm,
                   request);
}

}  // namespace core
}  // namespace fermata::mpi
