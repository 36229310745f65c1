// SPDX-License-Identifier: Apache-2.0
// Places where a rank may stop, and what it does where it must not.
//
// The agent writes what is wanted into Crossing; the MPI thread reads it here. A rank that may stop
// raises the quiesce signal on itself, so that a stopped context is always a signal frame, whether
// it was found computing, on its way out of a wrapper, waiting for a message or at the entry of a
// collective call. park() then runs inside the handler (park.h). A rank that must run on and waits
// says for whom (wait_edges.h).
#pragma once

#include "halves/crossing.h"

namespace fermata::mpi {

Phase current_phase();

/// True while this checkpoint is under way, and no later one.
bool is_under_way(u32 epoch);

/// True while a checkpoint is under way that this rank can take part in.
bool taking_part();

bool has_known_obligation();

/// Preconditions: taking_part(), in an MPI call. True before the targets are known: they are waited
/// for in park().
bool may_park(bool may_call_functions = true);

}  // namespace fermata::mpi
