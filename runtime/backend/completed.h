// SPDX-License-Identifier: Apache-2.0
// Sends that are complete when MPI_Isend returns, as small ones often are. An MPI gives them all
// one handle, which carries no state. Such a send is finished here at once, and its request is
// handed over as 0: the front end needs no core state for it, and nobody polls for it.
#pragma once

#include "backend/exit_handlers.h"
#include "backend/shim.gen.h"
#include "backend/ucx.h"

namespace fermata::backend {

inline RealRequest g_completed{};  // their handle; 0: this MPI has no such thing

/// Two sends to nobody are complete at once; they show the handle if they share it while both are
/// alive. Called once, after MPI_Init.
inline void find_completed() {
  const RealDatatype byte = canonical<mpi::kDatatype>(MPI_BYTE);
  const RealComm self = canonical<mpi::kComm>(MPI_COMM_SELF);
  RealRequest requests[2] = {};
  for (RealRequest& request : requests)
    if (Isend(nullptr, 0, byte, abi::kProcNull, 0, self, &request) != 0) return;
  if (requests[0] == requests[1]) g_completed = requests[0];
  for (RealRequest& request : requests) (void)Wait(&request, nullptr);
}

/// Completes the sends that have come with their handle since the last time. It carries no state,
/// so their number is all there is to remember; completing many at once costs little each.
class CompletedRequests {
 public:
  void add() {
    if (FERMATA_UNLIKELY(++count_ == kMany)) complete();
  }
  void complete() {
    MPI_Request requests[kMany];
    for (int i = 0; i < count_; i++) requests[i] = native(g_completed);
    (void)MPI_Waitall(count_, requests, MPI_STATUSES_IGNORE);
    count_ = 0;
  }

 private:
  static constexpr int kMany = 64;
  int count_ = 0;
};
inline CompletedRequests g_completed_all;

inline int isend(const void* buf, int count, RealDatatype datatype, int dest, int tag,
                 RealComm comm, RealRequest* request) {
  const int error = Isend(buf, count, datatype, dest, tag, comm, request);
  if (error != 0 || *request != g_completed) return error;
  g_completed_all.add();
  *request = {};
  return 0;
}

inline int finalize() {
  g_completed_all.complete();
  const UcxProgress progress;
  const int error = Finalize();
  run_exit_handlers();
  return error;
}

}  // namespace fermata::backend
