// SPDX-License-Identifier: Apache-2.0
// Making threads.
#pragma once

#include "launcher/boundary/guest.h"

namespace fermata::launch {

/// clone(2) with CLONE_THREAD, of either half. Returns the new thread's id, or -errno.
i64 trap_clone(Half half, UserContext* context);
u64 trap_set_tid_address(Half half, u64 address);

/// Goes up when a thread is to be made: it may have a place in the table that was passed already.
u32 count_of_made_threads();

}  // namespace fermata::launch
