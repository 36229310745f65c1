// SPDX-License-Identifier: Apache-2.0
// A send and a receive in one call.
#pragma once

#include "mpi/p2p/p2p.h"

namespace fermata::mpi {

/// Waits for both halves of an exchange; the send needs no core state beyond its count.
inline int wait_exchange(Slot** receive, Slot** send, CanonStatus* status) {
  const int receive_error = wait_request(receive, status);
  const int send_error = wait_request(send, nullptr);
  return receive_error ? receive_error : send_error;
}

/// Gives up a receive that was posted for an exchange whose send failed.
inline void abandon_receive(Slot** receive) {
  Request* const request = request_of(*receive);
  request->cancelled = true;
  request->wants_status = true;
  if (request->state == RequestState::kActive && request->mode != SendMode::kMatched)
    (void)lower().Cancel(&(*receive)->real);
  (void)wait_request(receive, nullptr);
}

inline int exchange(const void* sendbuf, int sendcount, Slot* sendtype, int dest, int sendtag,
                    void* recvbuf, int recvcount, Slot* recvtype, int source, int recvtag,
                    Slot* comm, CanonStatus* status) {
  Slot* receive = nullptr;
  Slot* send = nullptr;
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
inline int replace_large(void* buf, int count, Slot* datatype, int dest, int sendtag, int source,
                         int recvtag, Slot* comm, CanonStatus* status) {
  i64 lower_bound = 0, extent = 0, first = 0, span = 0;
  int error = lower().Type_get_extent(datatype->real, &lower_bound, &extent);
  if (!error) error = lower().Type_get_true_extent(datatype->real, &first, &span);
  if (error) return error;
  const i64 others = (count - 1) * extent;
  if (others < 0) first += others;
  span += others < 0 ? -others : others;
  if (span > 2 * i64(datatype->spare) * count) return kErrNoMem;
  u8* const copy = static_cast<u8*>(application_memory(u64(span)));
  if (!copy) return kErrNoMem;
  __builtin_memcpy(copy, static_cast<u8*>(buf) + first, u64(span));
  error = exchange(copy - first, count, datatype, dest, sendtag, buf, count, datatype, source,
                   recvtag, comm, status);
  arena_free(copy);
  return error;
}

namespace core {

inline int Sendrecv(const void* sendbuf, int sendcount, Slot* sendtype, int dest, int sendtag,
                    void* recvbuf, int recvcount, Slot* recvtype, int source, int recvtag,
                    Slot* comm, CanonStatus* status) {
  LowerScope scope;
  return exchange(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                  source, recvtag, comm, status);
}

inline int Sendrecv_replace(void* buf, int count, Slot* datatype, int dest, int sendtag,
                            int source, int recvtag, Slot* comm, CanonStatus* status) {
  LowerScope scope;
  if (FERMATA_UNLIKELY(i64(datatype->spare) * count > kPackedMost))
    return replace_large(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
  int bytes = 0;
  int error = lower().Pack_size(count, datatype->real, comm->real, &bytes);
  if (error) return error;
  void* const packed = arena_alloc(u64(bytes));
  int position = 0;
  error = lower().Pack(buf, count, datatype->real, packed, bytes, &position, comm->real);
  if (!error)
    error = exchange(packed, position, slot_at(kDatatype, kPacked), dest, sendtag, buf, count,
                     datatype, source, recvtag, comm, status);
  arena_free(packed, true);
  return error;
}

}  // namespace core
}  // namespace fermata::mpi
