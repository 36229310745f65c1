// SPDX-License-Identifier: Apache-2.0
// MPI_Win_allocate_shared: one block of memory that all members of a window load from and store to.
//
// The block is a file of POSIX shared memory, mapped into the upper half by every member; it is
// theirs, and no real MPI's. Its segments follow each other in rank order without gaps, as MPI's
// default asks. One-sided calls go through a real window on the same pages (near_windows.h).
//
// Whether an image can hold such a mapping is the launcher's business: if not, a checkpoint is
// refused by name as for any other shared mapping.
#pragma once

#include "mpi/handles/window.h"

namespace fermata::mpi {

/// Called once all members have finished with the block.
void shared_forget(const Window* window);

}  // namespace fermata::mpi
