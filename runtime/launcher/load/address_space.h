// SPDX-License-Identifier: Apache-2.0
// Where the kernel places memory: not in the windows.
#pragma once

#include "base/types.h"

namespace fermata::launch {

/// Sees to it that the kernel places no memory in the windows: executes the launcher anew if it
/// would. To be called first, when the command line is known. Ends the process if that is no use.
void settle_address_space(u64* initial_stack);
/// For what this process is about to execute without a launcher. Returns the personality to go back
/// to if it does not.
u64 lay_out_beside_windows();

}  // namespace fermata::launch
