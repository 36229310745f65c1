// SPDX-License-Identifier: Apache-2.0
// Who is in a communicator, as ranks of the world: asked of the lower half, or known beforehand.
#pragma once

#include "mpi/handles/objects.h"

namespace fermata::mpi {

/// Describes a real communicator. The id is not set yet. Returns null if the lower half refuses.
Comm* comm_describe(RealComm real, bool inter);

/// The same where the members are known: the lower half need not be asked.
Comm* comm_describe_known(const Group& members);

bool all_are_inside(const Group& group);

}  // namespace fermata::mpi
