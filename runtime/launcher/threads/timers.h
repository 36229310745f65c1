// SPDX-License-Identifier: Apache-2.0
// setitimer(2), timer_create(2).
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/reader.h"
#include "image/writer.h"

namespace fermata::launch {

u64 trap_timer_create(const u64 (&arguments)[6]);
/// CLOCK_* that timer_create was given; CLOCK_REALTIME if there is no such timer.
u64 clock_of_timer(i32 id);

/// Notes what is left of every timer. Errors: kEperm with `why`.
Status read_timers(Message& why);
bool any_timer();  // read_timers() has found one
void save_timers(image::Writer& writer);
/// Makes the saved timers again, not armed yet. Preconditions: all threads exist. Ends the process
/// if one cannot have its id.
void restore_timers(const image::Reader& reader);
void arm_restored_timers();  // once, after a restart

/// Has a timer send its signal, for `count` expiries up to now; after a restart, once it is armed.
/// Returns false if there is no such timer of timer_create.
bool expire_again(i32 id, u64 count);
bool expire_when_armed(i32 id, u64 count);

}  // namespace fermata::launch
