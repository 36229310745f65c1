// SPDX-License-Identifier: Apache-2.0
// The order in which the two halves come. None of these waits.
#pragma once

#include "halves/crossing.h"

namespace fermata::launch {

/// A fresh rank, or a shell before it: loads the application. Ends the process if it cannot.
[[noreturn]] void start_application();
/// A restart: loads the lower half, which comes back by lower_ready().
[[noreturn]] void start_lower();
/// LauncherCalls::load_lower: the application has asked for MPI. Returns when the lower half is up.
void load_lower();
/// LauncherCalls::lower_ready: its main() is through. Restores the rank if there is an image.
[[noreturn]] void lower_ready(const LowerCalls* lower, u32 world_rank, u32 world_size);

}  // namespace fermata::launch
