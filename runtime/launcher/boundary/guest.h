// SPDX-License-Identifier: Apache-2.0
// What every handler of a trapped call needs: whose call it is, a way to perform it, and care with
// the guest's pointers. Nothing here blocks longer than the call itself, and all of it may run in
// the trap handler.
#pragma once

#include "arch/x86_64/context.h"
#include "base/types.h"
#include "halves/crossing.h"

namespace fermata::launch {

using arch::UserContext;

enum class Half : u32 { kUpper = 1, kLower = 2 };  // the SECCOMP_RET_DATA of the boundary's traps

/// Hidden from both guests: they can neither block them nor see their handlers.
inline constexpr u64 kOurSignals = u64(1) << (kSignalTrap - 1) | u64(1) << (kSignalQuiesce - 1);

/// Whether code there is the launcher's.
inline bool in_launcher(u64 address) {
  return address >= kLauncherBase && address < kLauncherEnd;
}

/// Performs a trapped call as the guest made it. Returns what the kernel returned, -errno and all.
u64 pass_on(u64 number, const u64 (&arguments)[6]);
/// Whether the application's memory can be read there, and the trap handler may.
bool is_readable(u64 address, u64 bytes);

}  // namespace fermata::launch
