// SPDX-License-Identifier: Apache-2.0
// MPI_Finalize of an MPICH over UCX waits for the process manager in read(2), and makes no progress
// meanwhile. A rank that is still closing its connections may need an answer from one that waits
// there: MPICH 4.0.2 hung in most runs in which ranks of several hosts met only at the end.
#pragma once

namespace fermata::backend {

/// While there is one, UCX makes progress in what waits for the process manager. To be made around
/// MPI_Finalize, in its thread; does nothing under an MPI that is not MPICH over UCX.
class UcxProgress {
 public:
  UcxProgress();
  ~UcxProgress();
  UcxProgress(const UcxProgress&) = delete;
  UcxProgress& operator=(const UcxProgress&) = delete;
};

}  // namespace fermata::backend
