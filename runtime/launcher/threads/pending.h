// SPDX-License-Identifier: Apache-2.0
// Signals that are pending while the job is saved.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/reader.h"
#include "image/writer.h"

namespace fermata::launch {

/// Has each stopped thread take what waits for it, or for the process, out of the kernel. Of the
/// agent; waits for them. Errors: kEtimedout; kEperm if too many wait; with `why`.
Status take_signals(u64 deadline_ns, Message& why);
void take_own_signals(u32 tid);  // a stopped thread's part, if it has been asked
void forget_taken_signals();     // of an earlier checkpoint
bool signals_wait();             // whether any thread has signals to take

/// The calling thread queues again what was taken from it. Returns once the process's signals have
/// been queued again as well, and all timers' signals: 30 s at most for each. Preconditions: all
/// signals are blocked.
void return_signals();

void save_signals(image::Writer& writer);
/// Preconditions: all threads and timers are there. Threads return them when they continue.
void restore_signals(const image::Reader& reader);

}  // namespace fermata::launch
