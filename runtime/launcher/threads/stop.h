// SPDX-License-Identifier: Apache-2.0
// All upper threads stand still for a checkpoint.
#pragma once

#include "base/result.h"
#include "launcher/ids/thread.h"

namespace fermata::launch {

/// Ends the process if the kernel refuses the handler.
void install_quiesce_handler();

/// Stops every live upper thread but the one in hold(). Waits. Errors: kEbusy with *late = the id
/// of one that has not stopped by the deadline.
Status quiesce(u64 deadline_ns, u32* late);
/// Waits until the MPI thread has entered hold(). Errors: kEtimedout.
Status await_hold(u64 deadline_ns);
/// Lets every stopped thread, and the one in hold(), continue.
void release();
void wake_stopped();  // they look around, and stay

u32 stop_others();        // LauncherCalls::stop_others: asks; returns how many still run
void nudge(u32 id);       // LauncherCalls::nudge
void leave(void* frame);  // LauncherCalls::leave: the MPI thread returns to the application

}  // namespace fermata::launch
