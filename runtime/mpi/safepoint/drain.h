// SPDX-License-Identifier: Apache-2.0
// Between two ranks' last messages and the image: what was sent is received, what is active ends,
// and the coordinator is told. What cannot be saved is found here, and fails the checkpoint by
// name.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

void report_parked(u64 version);

/// True if this rank knows how many messages it is to receive: all have announced theirs.
bool knows_expected();

void drain_step();

/// The rank is about to be saved: what it has told the coordinator still holds, and no message and
/// no call is in the lower half alone. Ends the process otherwise. Preconditions: the other threads
/// stand.
void check_drained();

/// What has been announced is answered also if the checkpoint has been given up meanwhile, or its
/// sender would wait for ever. What has to come for that is on its way.
void leave_drain();

}  // namespace fermata::mpi
