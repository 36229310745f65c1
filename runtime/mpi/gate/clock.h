// SPDX-License-Identifier: Apache-2.0
// The collective clock: how many collective calls this rank has begun on each communicator.
//
// The coordinator turns the clocks of all ranks into targets, the maximum over the members; what a
// rank owes by them is in safepoint/obligations.h. Source: Xu and Cooperman, "Enabling Practical
// Transparent Checkpointing for MPI: A Topological Sort Approach" (2024); here with one coordinator
// instead of messages between ranks.
//
// Invariant: clocks()[i].comm_id != 0 exactly for communicators (and groups, for calls that are
//            collective over a group) this rank is a member of. Checked where clocks come and go.
// Invariant: a communicator passes a barrier in the lower half (leaving.h) before its entry is
//            removed. Every member has then counted the same last call and is bound to finish it,
//            so no member can be asked to wait for one that has forgotten the communicator. Not
//            checked: no rank sees the others'. A barrier that fails keeps the communicator.
#pragma once

#include "halves/crossing.h"

namespace fermata::mpi {

/// A new clock at 0. Its id is in no list of targets yet, so its target is 0 as well.
ClockEntry* clock_new(u64 comm_id);

void clock_free(ClockEntry* clock);

/// The clock of calls that are collective over a group and not over a communicator
/// (group_calls.h). Its id is a hash of the members in their order, so all members agree on it.
/// Made by the first such call, and kept from then on.
ClockEntry* clock_of_group(const i32* world_ranks, i32 count);

}  // namespace fermata::mpi
