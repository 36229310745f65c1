// SPDX-License-Identifier: Apache-2.0
// What the kernel pushes for a signal, and the assembly primitives that switch whole contexts.
// Layout: asm/sigcontext.h and asm/ucontext.h of Linux x86-64 (stable ABI).
#pragma once

#include "base/types.h"

namespace fermata::arch {

struct UserContext {  // struct ucontext
  u64 flags;
  u64 link;
  u64 stack_base;
  i32 stack_flags;
  i32 pad;
  u64 stack_bytes;
  u64 r8, r9, r10, r11, r12, r13, r14, r15;
  u64 rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  u16 cs, gs, fs, ss;
  u64 error_code, trap_number, old_mask, cr2;
  u64 fpstate;  // address of the FXSAVE/XSAVE area in the same frame
  u64 reserved[8];
  u64 mask;  // blocked signals to restore
};
static_assert(sizeof(UserContext) == 304);

/// Offsets into the FXSAVE area (Intel SDM vol. 1, 10.5.1), and into what Linux keeps at its end
/// (struct _fpx_sw_bytes): whether an XSAVE area follows, and how large both are together.
inline constexpr u64 kFxControlWord = 0, kFxMxcsr = 24, kFxMagic = 464, kFxExtended = 468;
inline constexpr u32 kFxHasExtended = 0x46505853;
inline constexpr u64 kFxBytes = 512;

struct SignalInfo {  // siginfo_t, SIGSYS view
  i32 signal, error, code, pad;
  u64 call_address;
  i32 number;
  u32 machine;
};

struct GuestStart {
  u64 stack, entry;
};

/// Where a new guest thread continues: the registers of the clone() that made it.
struct ThreadStart {
  u64 rbx, rbp, rdi, rsi, rdx, r8, r9, r10, r12, r13, r14, r15;
  u64 rsp, rip;
  u32 mxcsr;
  u32 control_word;
  u64 mask;       // blocked signals once it runs
  u64 gs_base;    // lower threads: their thread block
  u64 is_lower;
  u64 frame;      // upper threads: the UserContext to return to
  u64 slot;       // launcher's thread table
};

extern "C" {
/// Loads rsp and jumps to a program's entry point as the kernel would (System V ABI 3.4.1).
[[noreturn]] void fermata_enter_guest(u64 stack, u64 entry);
/// The same, as a call: returns when the guest calls fermata_leave_guest(*own_stack), on the same
/// thread, having saved the callee-saved registers on its own stack and the stack in *own_stack.
void fermata_call_guest(u64 stack, u64 entry, u64* own_stack);
[[noreturn]] void fermata_leave_guest(u64 own_stack);
/// clone(2). The child starts on record's stack and calls fermata_thread_start(record). If that
/// returns, it continues with record's registers and rax = 0. Returns the kernel's result in the
/// parent.
i64 fermata_clone_guest(u64 flags, ThreadStart* record, u64 parent_tid, u64 child_tid, u64 tls);
/// clone(2) whose child calls entry(argument) on `stack` (16-byte aligned) and never returns.
i64 fermata_clone_call(u64 flags, u64 stack, u64 parent_tid, u64 child_tid, u64 tls,
                       void (*entry)(void*), void* argument);
/// Clears *clear_tid (if given), wakes who waits for that, then stores 0 in *state and ends the
/// thread. Its stack may be gone from the first store on, so it uses none. All signals blocked.
[[noreturn]] void fermata_end_thread(u64 clear_tid, void* state, u64 code);
/// Calls park(frame) so that its return goes to `trampoline` with rbx = frame. On `stack`, if that
/// is not 0.
[[noreturn]] void fermata_park(u64 frame, void (*park)(void*), u64 trampoline, u64 stack);
/// rt_sigreturn with `frame` (a UserContext) as the frame to return to.
[[noreturn]] void fermata_sigreturn_to(u64 frame);
/// Signal handlers' sa_restorer.
void fermata_restorer();
/// LauncherCalls::hold: saves the callee-saved registers on the stack, calls
/// fermata_hold(frame, stack pointer) and returns its result.
i32 fermata_hold_entry(void* frame);
/// Takes up a thread that was in fermata_hold_entry with stack pointer `stack`: there, it returns
/// kHoldRestarted.
[[noreturn]] void fermata_hold_resume(u64 stack);
}

/// The code at the trampoline: mov %rbx,%rsp; mov $15,%eax; syscall. Lives in upper memory, so that
/// a saved stack holds no address of a launcher that may have been rebuilt since.
inline constexpr u8 kSigreturnTrampoline[] = {0x48, 0x89, 0xdc, 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};

}  // namespace fermata::arch
