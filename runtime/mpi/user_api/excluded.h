// SPDX-License-Identifier: Apache-2.0
// The list of memory that the application does not need again (fermata_exclude). The image's writer
// reads it (memory/excluded.h); a thread that changes it is inside MPI as far as a checkpoint is
// concerned. It need not be one that may call MPI, so the core lock does not guard the list.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

int exclude(void* address, size_t bytes);
int include(void* address, size_t bytes);

}  // namespace fermata::mpi
