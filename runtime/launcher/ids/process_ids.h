// SPDX-License-Identifier: Apache-2.0
// The process keeps its id over a restart, and so do its parent, its group and its session.
#pragma once

#include "image/format.gen.h"
#include "launcher/boundary/guest.h"

namespace fermata::launch {

void note_process_ids();  // when the rank is saved, by the process itself
void save_process_ids(image::ImageHeader& out);
/// Preconditions: the upper vdso page is back; it knows the ids, too.
void restore_process_ids(const image::ImageHeader& saved);

u32 known_process(u32 pid);
u32 known_group(u32 id);
/// The kernel's id for what the application calls `id`: the process, its parent, a helper, a child,
/// a thread.
u32 kernel_process(u32 id);
u32 kernel_task(u32 id);  // likewise, but rather a thread than a child
u32 kernel_group(u32 id);

/// A child that a restart has started again, and the id by which the application knows it.
void note_helper_id(u32 pid, u32 known_as);
void forget_ended_helpers();
/// What wait4(2) or waitid(2) of the application waits for, as its first two arguments tell.
void name_awaited(u64 number, u64& first, u64& second);

/// A call of the upper half that takes or tells ids.
u64 trap_id_call(u64 number, const u64 (&arguments)[6]);
/// Likewise, one that may block. Returns what rax must hold when `context` is returned to.
u64 trap_waiting_call(u64 number, UserContext* context);

}  // namespace fermata::launch
