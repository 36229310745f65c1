// SPDX-License-Identifier: Apache-2.0
// MPI_Wtime, which programs call in the middle of what they compute.
#pragma once

#include "mpi/gate/scopes.h"
#include "mpi/handles/core_state.h"

namespace fermata::mpi::core {

/// Seconds since some moment in the past, the same moment after a restart on another node or MPI;
/// the time between saving and restarting does not count. What it reads changes while all threads
/// stand.
inline double Wtime() {
  ScopeOfCall<false> scope;
  return lower().Wtime() + state().world.wtime_offset;
}

}  // namespace fermata::mpi::core
