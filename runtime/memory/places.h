// SPDX-License-Identifier: Apache-2.0
// Where a process is, as far as sharing memory with others goes. Each is a hash.
#pragma once

#include "base/types.h"

namespace fermata::memory {

/// The kernel since it was started: device and inode numbers are its own.
u64 this_kernel();
/// The same and the namespace of System V ids.
u64 kernel_and_ipc();
/// Processes of one place can hand each other descriptors through /proc.
u64 this_place();

}  // namespace fermata::memory
