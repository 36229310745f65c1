// SPDX-License-Identifier: Apache-2.0
// The end of a thread, done before its slot is free.
#pragma once

#include "launcher/boundary/guest.h"

namespace fermata::launch {

/// exit(2) of an upper thread. Returns, with what rax must hold, for the main thread only.
u64 trap_exit(u64 code, UserContext* context);

}  // namespace fermata::launch
