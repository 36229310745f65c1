// SPDX-License-Identifier: Apache-2.0
// Clocks that never go back.
#pragma once

#include "image/format.gen.h"
#include "launcher/boundary/guest.h"
#include "sys/sys.h"

namespace fermata::launch {

/// On a restart, before the boundary is installed: decides on the offsets.
void plan_clocks(const image::ImageHeader& saved);
bool clocks_shifted();  // whether there are any
void save_clocks(image::ImageHeader& out);
/// The offsets planned come into force. Preconditions: upper memory is back.
void begin_clocks();

bool is_boot_clock(u64 clock);
/// A deadline on the boot clock that an image's restarted call waits for. After begin_clocks().
sys::TimeSpec to_new_boot_clock(const sys::TimeSpec& deadline);

u64 trap_clock_call(u64 number, const u64 (&arguments)[6]);
/// A call that waits until an absolute time, or for a clock that has an id in it. Returns what rax
/// must hold when `context` is returned to.
u64 trap_timed_wait(u64 number, UserContext* context);

}  // namespace fermata::launch
