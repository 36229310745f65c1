// SPDX-License-Identifier: Apache-2.0
// A rank that has stopped, until the checkpoint is over or it turns out that it must run on.
//
// park() runs inside the quiesce handler. It sleeps on Crossing::wake between polls: 20 us when
// something moved, up to 1 ms when nothing does.
//
// Invariant: park() is entered with Gate::depth == 0 (checked) and the core state in order (checked
//            where the rank is saved: check_drained); while it runs, depth is above 0 and the
//            rank's application code stands still.
// Invariant: every loop here ends when the agent stores Phase::kRun; the agent has the deadlines.
//            Not checked: a loop that does not end is found by those deadlines.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

/// UpperCalls::park. Runs on the MPI thread inside the quiesce handler.
void park(void* frame);

}  // namespace fermata::mpi
