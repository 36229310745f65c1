// SPDX-License-Identifier: Apache-2.0
// Brings a saved rank back into a process whose lower half is already running.
#pragma once

#include "base/types.h"
#include "halves/crossing.h"

namespace fermata::restore {

/// Maps the image rank-<world_rank>.img of `directory`, recreates files, signals and threads, and
/// goes on where the rank was saved, in hold(). Ends the process with a message if it cannot.
[[noreturn]] void restore_rank(const LowerCalls* lower, const char* directory, u32 world_rank,
                               u32 world_size);

}  // namespace fermata::restore
