// SPDX-License-Identifier: Apache-2.0
// System calls that a checkpoint interrupts are made again; the caller sees nothing of it. All of
// this changes signal frames, with all signals blocked, and may run in a handler.
#pragma once

#include "launcher/boundary/guest.h"
#include "launcher/ids/thread.h"

namespace fermata::launch {

/// Notes what call the thread is blocked in, for restart_call() in its signal handler.
void sample_call(Thread& thread);
/// In the quiesce handler: if the signal made a blocking call return EINTR, or less than it was to
/// move, changes the frame so that the call is made again, with what is left of its timeout.
/// `sample` may be null.
void restart_call(UserContext* frame, const CallSample* sample);
/// Before the frame is returned to: a call that was to be made again fails with EINTR after all if
/// a signal handler of the application will run first.
void settle_restarted_call(UserContext* frame);
/// After a restart of the job: its deadlines on the monotonic clock are moved to the new machine's.
void shift_restarted_call(UserContext* frame);

}  // namespace fermata::launch
