// SPDX-License-Identifier: Apache-2.0
// What a restart would undo.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "launcher/ids/thread.h"

namespace fermata::launch {

void note_first_state();            // at the start
void note_changes(Thread& thread);  // by a thread that stops
/// Fails with EPERM if there is anything of that sort.
Status refuse_undone(Message& why);
u64 trap_undone_call(u64 number, const u64 (&arguments)[6]);

}  // namespace fermata::launch
