// SPDX-License-Identifier: Apache-2.0
// The MPI library that the application asks for.
#pragma once

#include "base/types.h"

namespace fermata::launch {

/// open(2) or openat(2) of ld.so of the upper half. Returns what the kernel returned, or the front
/// end's descriptor.
u64 trap_loader_open(u64 number, const u64 (&arguments)[6]);

}  // namespace fermata::launch
