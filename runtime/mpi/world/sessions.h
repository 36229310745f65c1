// SPDX-License-Identifier: Apache-2.0
// Sessions (MPI-4.0, 11.3), on the one lower half that a rank has.
//
// Sessions and MPI_Init share what the first of them has begun: MPI_COMM_WORLD of the lower half is
// there for both, whether the application may name it or not. The process sets are mpi://WORLD and
// mpi://SELF, and a communicator made from a group is one of MPI_Comm_create_group. Sessions may be
// opened again as long as the process lives, and no lower half can be begun twice: once there has
// been one, MPI ends with the process (end_with_process), as MPI_Finalize ends it otherwise.
//
// A rank that begins with a session gets MPI_THREAD_MULTIPLE of the lower half: what the others
// will ask for, and MPI_Init, nobody knows yet.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

/// Ends MPI where neither sessions nor MPI_COMM_WORLD are in use, but have been: at the end of the
/// process, not of one that it has forked.
void end_with_process();

}  // namespace fermata::mpi
