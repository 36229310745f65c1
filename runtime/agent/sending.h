// SPDX-License-Identifier: Apache-2.0
// A send that the lower half waits in, for a rank that has parked and takes in nothing unasked: the
// MPI thread is inside and cannot ask, so the agent does (mpi/safepoint/wait_edges.h is the same
// for the rest).
#pragma once

#include "halves/crossing.h"

namespace fermata::agent {

/// Preconditions: a checkpoint is pending and its phase is kGather. To be called every
/// kSendingPollMs at least.
/// Returns true once for each send that has lasted for two calls: then `edges`, which has room for
/// kClockCapacity, holds `*count` wait-for edges to report. Blocks: no. Allocates: no.
bool send_has_to_be_told(Count* edges, u64* count);

inline constexpr int kSendingPollMs = 1;

}  // namespace fermata::agent
