// SPDX-License-Identifier: Apache-2.0
// Ids in paths below /proc. Both return what the kernel returned.
#pragma once

#include "base/types.h"

namespace fermata::launch {

u64 trap_upper_open(u64 number, const u64 (&arguments)[6]);
u64 trap_upper_readlink(u64 number, const u64 (&arguments)[6]);

}  // namespace fermata::launch
