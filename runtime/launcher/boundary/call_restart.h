// SPDX-License-Identifier: Apache-2.0
// A system call that is made from the upper vdso page. The thread's context is moved to code there
// that makes the call, then gives the caller's registers back and returns behind the caller's own
// system call instruction. So is made again what a checkpoint interrupted
// (threads/syscall_restart.cpp), and what has trapped and may block, which it must not do in the
// trap handler; the filter lets calls from that page pass.
//
// Invariant: what such a call needs lies on its thread's own stack, at its stack pointer, so it is
//            in the image and the thread begins there after a restart. Not checked: the tests of
//            each such call restart it.
#pragma once

#include "launcher/boundary/guest.h"
#include "sys/sys.h"

namespace fermata::launch {

inline constexpr u64 kUnknownCall = ~u64(0);

/// What restart_block is to the kernel. vdso.S knows this layout.
struct RestartBlock {
  u64 number;       // kUnknownCall: it is not made again
  u64 began_ns;     // monotonic: when it was last interrupted
  u64 deadline_ns;  // monotonic: of a relative timeout; 0 = none yet. Or what poll(2) waits for
  u64 scratch[4];   // what a changed argument points at
  u64 rdi, rsi, rdx, r10, r8, r9, rip, rsp;  // the caller's
  u64 moved;        // by a transfer, before the call that is being made
};

/// That of a frame whose stack pointer names one.
RestartBlock* restart_block(UserContext* frame);
/// The signal frame has room for one: its siginfo_t, which follows the context and which nobody
/// needs any more. Once the frame is left, that lies at the thread's stack pointer.
RestartBlock* begin_restart(UserContext* frame, u64 number);

/// A trapped call that may block is to be made once `context` is returned to, with the arguments
/// that it will have then; its caller gets back what it had before. Returns what rax must hold.
u64 restart_trapped_call(u64 number, UserContext* context);
/// Room for a changed timeout of that call.
sys::TimeSpec& restart_timeout(UserContext* context);
/// Likewise pause(2): the thread sleeps until a handler has run.
u64 restart_as_pause(UserContext* context);
/// Likewise a call with a signal mask, without our signals in the mask, and with those of `held`.
u64 trap_masked_call(u64 number, UserContext* context, u64 held);
/// If a frame stands where such a call is made: with those of `held` in place of those before.
void renew_held_in_call(UserContext* frame, u64 held);

}  // namespace fermata::launch
