// SPDX-License-Identifier: Apache-2.0
// A send and a receive in one call.
#pragma once

#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

namespace fermata::mpi {

/// Waits for both halves of an exchange; the send needs no core state beyond its count.
inline int wait_exchange(RequestSlot** receive, RequestSlot** send, CanonStatus* status) {
  const int receive_error = wait_request(receive, status);
  const int send_error = wait_request(send, nullptr);
  return receive_error ? receive_error : send_error;
}

/// Gives up a receive that was posted for an exchange whose send failed.
void abandon_receive(RequestSlot** receive);

inline int exchange(const void* sendbuf, int sendcount, DatatypeSlot* sendtype, int dest,
                    int sendtag, void* recvbuf, int recvcount, DatatypeSlot* recvtype, int source,
                    int recvtag, CommSlot* comm, CanonStatus* status) {
  RequestSlot* receive = nullptr;
  RequestSlot* send = nullptr;
  int error = receive_begin(recvbuf, recvcount, recvtype, source, recvtag, comm, &receive);
  if (error) return error;
  error = send_begin(&MpiCalls::Isend, sendbuf, sendcount, sendtype, dest, sendtag, comm, &send);
  if (error) {
    abandon_receive(&receive);
    return error;
  }
  return wait_exchange(&receive, &send, status);
}

inline constexpr i64 kPackedMost = 1 << 30;

/// An exchange in place of more than can be packed: what is sent is copied as it lies in memory,
/// which must be no more than twice as much, gaps included.
int replace_large(void* buf, int count, DatatypeSlot* datatype, int dest, int sendtag, int source,
                  int recvtag, CommSlot* comm, CanonStatus* status);

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Sendrecv(const void* sendbuf, int sendcount, DatatypeSlot* sendtype, int dest,
                    int sendtag, void* recvbuf, int recvcount, DatatypeSlot* recvtype, int source,
                    int recvtag, CommSlot* comm, CanonStatus* status) {
  LowerScope scope;
  return exchange(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                  source, recvtag, comm, status);
}

inline int Sendrecv_replace(void* buf, int count, DatatypeSlot* datatype, int dest, int sendtag,
                            int source, int recvtag, CommSlot* comm, CanonStatus* status) {
  LowerScope scope;
  if (FERMATA_UNLIKELY(i64(datatype->type_size) * count > kPackedMost))
    return replace_large(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
  int bytes = 0;
  int error = lower().Pack_size(count, datatype->real(), comm->real(), &bytes);
  if (error) return error;
  void* const packed = arena_alloc(u64(bytes));
  int position = 0;
  error = lower().Pack(buf, count, datatype->real(), packed, bytes, &position, comm->real());
  if (!error)
    error = exchange(packed, position, slot_at<kDatatype>(kPacked), dest, sendtag, buf, count,
                     datatype, source, recvtag, comm, status);
  arena_free(packed, true);
  return error;
}

}  // namespace fermata::mpi::core
