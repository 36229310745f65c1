// SPDX-License-Identifier: Apache-2.0
// alone. The lower half is shown a group only for the moment in which a communicator is made from
// it.
#pragma once

#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// A new group of `size` world ranks, which are copied. The empty group is the predefined one.
GroupSlot* group_new(const i32* ranks, i32 size);

const Group* members_of(GroupSlot* slot);
i32 position_in(const Group* group, i32 world_rank);

/// The lower half's group of the job's ranks, by world rank, and of the processes outside the job
/// that this one has met. Freed by the caller, unless it is LowerValues::everyone.
int lower_everyone(RealGroup* group);

/// Shows a list of world ranks to the lower half as a group. Freed by the caller with Group_free.
int lower_group(const i32* ranks, i32 size, RealGroup* group);

/// Makes a communicator of these world ranks, over the bridge. Collective over them.
int lower_comm(const i32* ranks, i32 size, i32 tag, RealComm* real);

}  // namespace fermata::mpi
