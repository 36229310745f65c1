// SPDX-License-Identifier: Apache-2.0
// What a communicator says of itself without asking anybody: the hot path of most programs.
#pragma once

#include "halves/mpi_calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

inline bool is_inter(CommSlot* comm) {
  const Comm* const c = live_comm(comm);
  return c && c->remote_size >= 0;
}

/// Of a rooted collective call: whether this rank is its root.
inline bool at_root(CommSlot* comm, int root) {
  const Comm* const c = live_comm(comm);
  return c && (c->remote_size >= 0 ? root == kRoot : root == c->rank);
}
/// What stands where a call reads nothing.
template <Kind kind>
SlotOf<kind>* ignored_handle() {
  static_assert(kind == kOp || kind == kDatatype);
  return slot_at<kind>(kind == kOp ? u32{abi::kSum} : u32{kByte});
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Comm_rank(CommSlot* comm, int* rank) {
  const Comm* const c = comm_of(comm);
  if (FERMATA_UNLIKELY(c == nullptr)) return kErrComm;
  *rank = c->rank;
  return kSuccess;
}
inline int Comm_size(CommSlot* comm, int* size) {
  const Comm* const c = comm_of(comm);
  if (FERMATA_UNLIKELY(c == nullptr)) return kErrComm;
  *size = c->size;
  return kSuccess;
}
inline int Comm_remote_size(CommSlot* comm, int* size) {
  const Comm* const c = comm_of(comm);
  if (!c || c->remote_size < 0) return kErrComm;
  *size = c->remote_size;
  return kSuccess;
}
inline int Comm_test_inter(CommSlot* comm, int* flag) {
  const Comm* const c = comm_of(comm);
  if (!c) return kErrComm;
  *flag = c->remote_size >= 0;
  return kSuccess;
}

}  // namespace fermata::mpi::core
