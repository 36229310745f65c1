// SPDX-License-Identifier: Apache-2.0
// As whom the process runs.
#pragma once

#include "base/result.h"
#include "base/text.h"

namespace fermata::launch {

void note_credentials();  // at the start
/// Fails with EPERM if a thread has other user or group ids, or capabilities, than the process was
/// started with: after a restart it would have those again.
Status refuse_other_credentials(u32 pid, Message& why);

}  // namespace fermata::launch
