// SPDX-License-Identifier: Apache-2.0
// The beginning and the end of MPI in a rank.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

/// Begins the lower half: for MPI_Init, or for a session.
int start_mpi(int* argc, char*** argv, int required);

/// Counted like a collective call on MPI_COMM_WORLD: no rank enters it while another one is still
/// to be stopped before it. After that no checkpoint is possible.
int end_mpi();

}  // namespace fermata::mpi
