// SPDX-License-Identifier: Apache-2.0
// The agent: the lower half's thread that speaks for its rank with the job's coordinator.
#pragma once

#include "halves/crossing.h"

namespace fermata {

// Starts the agent thread if the launcher was given a socket; without one the rank runs on without
// checkpoints. Call once, from the back end's main thread, before lower_ready().
void agent_start(const LowerCalls* lower);

// Goes into LowerCalls::report. Returns 0, or -errno when the coordinator cannot be reached.
// Blocks at most for a socket write (bounded by kSendTimeoutS). Allocates: no.
int agent_report(Report kind, u32 epoch, const void* payload, u64 bytes);

// Tells the coordinator that the program aborts with this code; a line that is broken says nothing.
// Blocks at most for a socket write, as above. Allocates: no.
void agent_aborting(int code);

// Makes a detached thread of the lower half that takes no signal but the boundary's trap. Returns 0
// or an errno.
int start_lower_thread(void* (*entry)(void*), u64 stack_bytes);

}  // namespace fermata
