// SPDX-License-Identifier: Apache-2.0
// A thread keeps its id over a restart.
#pragma once

#include "launcher/ids/thread.h"

namespace fermata::launch {

/// From now on ids of threads may differ from the kernel's.
void adopt_saved_ids();
bool ids_differ();  // whether they may

/// The id for a thread that has been made with the kernel's id `tid`.
u32 choose_id(const Thread& thread, u32 tid);
/// The kernel's id for what the application calls `id`, and the other way round; what is no
/// thread's id stays as it is.
u32 kernel_tid(u32 id);
u32 known_thread(u32 tid);
u64 kernel_clock(u64 clock);  // likewise, of a clock id that may name a thread or process

}  // namespace fermata::launch
