// SPDX-License-Identifier: Apache-2.0
// The children of the process: those of the application are in no image.
#pragma once

#include "base/result.h"
#include "base/text.h"

namespace fermata::launch {

void note_first_children();  // before the application runs: they are not its own
/// The children of process `pid`, as many as there is room for. Returns their number.
u32 list_children(u32 pid, u32* out, u32 capacity);
/// False for those that were there before the application, and those of the lower half.
bool is_own_child(u32 child);
/// Fails with EAGAIN if process `pid` has a child that the application made, named in `why`: it may
/// soon have ended. Helpers are noted instead (helpers.h).
Status refuse_children(u32 pid, u32 writer, Message& why);

}  // namespace fermata::launch
