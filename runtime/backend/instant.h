// SPDX-License-Identifier: Apache-2.0
// Sends that are complete when MPI_Isend returns, as small ones often are. An MPI gives them all
// one handle, which carries no state. Such a send is finished here at once, and its request is
// handed over as 0: the front end needs no books for it, and nobody polls for it.
#pragma once

#include "backend/shim.gen.h"

namespace fermata::backend {

inline u64 g_instant = 0;  // their handle; 0: this MPI has no such thing

/// Two sends to nobody are complete at once; they show the handle if they share it while both are
/// alive. Called once, after MPI_Init.
inline void find_instant() {
  const u64 byte = canonical(MPI_BYTE), self = canonical(MPI_COMM_SELF);
  u64 requests[2] = {0, 0};
  for (u64& request : requests)
    if (Isend(nullptr, 0, byte, abi::kProcNull, 0, self, &request) != 0) return;
  if (requests[0] == requests[1]) g_instant = requests[0];
  for (u64& request : requests) (void)Wait(&request, nullptr);
}

inline int isend(const void* buf, int count, u64 datatype, int dest, int tag, u64 comm,
                 u64* request) {
  const int error = Isend(buf, count, datatype, dest, tag, comm, request);
  if (error != 0 || *request != g_instant) return error;
  const int outcome = Wait(request, nullptr);
  *request = 0;
  return outcome;
}

}  // namespace fermata::backend
