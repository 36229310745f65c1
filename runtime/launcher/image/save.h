// SPDX-License-Identifier: Apache-2.0
// A checkpoint of this rank: LauncherCalls that the agent makes, one after the other.
#pragma once

#include "halves/crossing.h"

namespace fermata::launch {

/// Stops the threads and forks the writer. Returns its pid, or -errno with the outcome filled: then
/// the threads continue. Waits until the request's deadline at most.
i32 save(const SaveRequest* request, SaveOutcome* outcome);
/// Returns 1 once the writer has taken what the threads would change by continuing, or has ended; 0
/// after timeout_ms.
i32 save_described(i32 writer, u32 timeout_ms);
/// Lets the threads continue. Returns the time they stood still, in ns.
u64 resume();
/// Returns 1 once the writer has ended, with the outcome filled; 0 after timeout_ms.
i32 save_finish(i32 writer, u32 timeout_ms, SaveOutcome* outcome);

bool is_old_writer(u32 pid);  // of a checkpoint that was given up; has been killed, and takes long

}  // namespace fermata::launch
