// SPDX-License-Identifier: Apache-2.0
// The vdso that the upper half sees; where the kernel's is, and was.
#pragma once

#include "base/types.h"
#include "halves/layout.h"

namespace fermata::launch {

inline constexpr u64 kVdsoTable = kUpperVdso + 0xe000;
inline constexpr u64 kHeardHandlers = kVdsoTable + 0xb00;  // bits: signals whose handler has begun
inline constexpr u64 kTrampoline = kUpperVdso + 0xd000;

/// Moves the kernel's vdso to its place after so many restarts, before anybody knows where it is.
void place_vdso(u32 restarts);
u64 lower_vdso();  // AT_SYSINFO_EHDR for the lower half; 0: there is none
/// Maps our vdso image and the sigreturn trampoline. Returns AT_SYSINFO_EHDR for the upper half.
/// Ends the process if their place is taken.
u64 install_vdso();
/// After a restart: points the (already mapped) table at the live vdso, at nothing where it lacks a
/// function, at ours where clocks are shifted, and makes the places of earlier ones a way to begin
/// a call again. Ends the process without memory for that.
void renew_vdso(u32 restarts, bool clocks_shifted);

// The code of vdso.S that makes a call again, that waits first, and that enters handlers which are
// told the sender; and where the first two are once the call has returned. 0 until it is mapped.
extern u64 restart_address, restarted_address, wait_address, waited_address, handler_address;
// Those that note the start of a handler before; the second as the above. 0 in images of Fermata
// 0.1.0 of crossing 16, too.
extern u64 noting_address, noting_told_address;

}  // namespace fermata::launch
