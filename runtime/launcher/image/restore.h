// SPDX-License-Identifier: Apache-2.0
// A restart of this rank.
#pragma once

#include "halves/crossing.h"

namespace fermata::launch {

/// Reads from the image what must be known before the lower half begins: the level of threads
/// (config.h), the numbers of descriptors that the application will want back, and these.
void look_at_image();
extern u32 saved_restarts;       // that the rank has had before; 0 without a restart
extern bool saved_with_helpers;  // the image has children that are started again

/// Maps the image rank-<world_rank>.img of `directory`, recreates files, signals and threads, and
/// continues where the rank was saved, in hold(). Ends the process with a message if it cannot.
[[noreturn]] void restore_rank(const LowerCalls* lower, const char* directory, u32 world_rank,
                               u32 world_size);

}  // namespace fermata::launch
