// SPDX-License-Identifier: Apache-2.0
// The threads of both halves. Making a thread traps: the child must continue at the trapped
// instruction with its creator's registers on its new stack, a lower thread with its thread block
// on GS instead of FS. Upper threads are entered in the table, so that a checkpoint finds them.
#include "launcher/threads/clone.h"

#include <asm/unistd.h>

#include "arch/x86_64/context.h"
#include "halves/crossing.h"
#include "launcher/ids/thread.h"
#include "launcher/ids/thread_ids.h"
#include "launcher/threads/affinity.h"
#include "launcher/threads/held_signals.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

u32 made_count;  // goes up when a thread is to be made

Thread* reserve_thread() {
  for (Thread& thread : threads)
    if (change_state(thread, ThreadState::kFree, ThreadState::kReserved)) {
      __atomic_add_fetch(&made_count, 1, __ATOMIC_RELEASE);
      return &thread;
    }
  return nullptr;
}


}  // namespace

u32 count_of_made_threads() { return __atomic_load_n(&made_count, __ATOMIC_ACQUIRE); }

extern "C" void fermata_thread_start(arch::ThreadStart* start) {
  if (start->is_lower) {
    arch::write_gs_base(start->gs_base);
    (void)sys::sigprocmask(sys::kSigSetMask, &start->mask, nullptr);
    return;
  }
  Thread& thread = threads[start->slot];
  thread.tid = sys::gettid();
  if (!ids_differ()) thread.id = thread.tid;
  while (!__atomic_load_n(&thread.id, __ATOMIC_ACQUIRE))
    sys::futex_wait(&thread.id, 0, 10'000'000);  // its creator gives it one
  set_state(thread, ThreadState::kLive);
  renew_held(thread, reinterpret_cast<UserContext*>(start->frame));
  // Signals are open from its own first instruction on, and not before: the handler of one that
  // waits for it would return to us, whose code lies elsewhere once the launcher is built anew.
  arch::fermata_sigreturn_to(start->frame);
}

namespace {

/// The id, and the places where the creator wants it, while the new thread waits.
i64 name_thread(Thread& thread, u32 tid, const UserContext* context) {
  const u32 id = choose_id(thread, tid);
  if (context->rdi & sys::kCloneParentSetTid) *reinterpret_cast<u32*>(context->rdx) = id;
  if (context->rdi & sys::kCloneChildSetTid) *reinterpret_cast<u32*>(context->r10) = id;
  __atomic_store_n(&thread.id, id, __ATOMIC_RELEASE);
  sys::futex_wake_all(&thread.id);
  return id;
}

/// Puts a frame below `top` from which a thread continues as its creator would, on `stack`.
UserContext* frame_for_thread(const UserContext& creator, u64 top, u64 stack) {
  const u8* const state = reinterpret_cast<const u8*>(creator.fpstate);
  const bool extended =
      *reinterpret_cast<const u32*>(state + arch::kFxMagic) == arch::kFxHasExtended;
  const u64 bytes = extended ? *reinterpret_cast<const u32*>(state + arch::kFxExtended)
                             : arch::kFxBytes;
  u8* const copy = reinterpret_cast<u8*>((top - bytes) & ~u64(63));
  __builtin_memcpy(copy, state, bytes);
  UserContext* const frame =
      reinterpret_cast<UserContext*>((sys::arg(copy) - sizeof(UserContext)) & ~u64(63));
  *frame = creator;
  frame->fpstate = sys::arg(copy);
  frame->rsp = stack;
  frame->rax = 0;  // what clone(2) returns in the child
  frame->mask &= ~kOurSignals;
  frame->stack_base = frame->stack_bytes = 0;
  frame->stack_flags = sys::kSsDisable;
  return frame;
}

}  // namespace

i64 trap_clone(Half half, UserContext* context) {
  const bool is_lower = half == Half::kLower;
  const u64 stack = context->rsi;
  if (stack == 0) return -sys::kEinval;
  Thread* thread = is_lower ? nullptr : reserve_thread();
  if (!is_lower && !thread) return -sys::kEagain;

  // The record lies on the new stack, below what the creator put there and below its red zone.
  const u64 top = stack - 256;
  UserContext* const frame = is_lower ? nullptr : frame_for_thread(*context, top, stack);
  const u64 below = is_lower ? top : sys::arg(frame);
  arch::ThreadStart* start =
      reinterpret_cast<arch::ThreadStart*>((below - sizeof(arch::ThreadStart)) & ~u64(63));
  const u8* fp = reinterpret_cast<const u8*>(context->fpstate);
  *start = {context->rbx, context->rbp, context->rdi, context->rsi, context->rdx, context->r8,
            context->r9,  context->r10, context->r12, context->r13, context->r14, context->r15,
            stack,        context->rip, *reinterpret_cast<const u32*>(fp + arch::kFxMxcsr),
            *reinterpret_cast<const u16*>(fp + arch::kFxControlWord),
            // A signal for the process must find an application thread: lower ones take none.
            ~kOurSignals | sys::signal_bit(kSignalQuiesce), context->r8, is_lower,
            sys::arg(frame), thread ? u64(thread - threads) : 0};
  u64 flags = context->rdi;
  if (is_lower) flags &= ~sys::kCloneSetTls;
  if (thread) {
    thread->clear_tid = (flags & sys::kCloneChildClearTid) ? context->r10 : 0;
    thread->frame = thread->hold_stack = 0;
    thread->asked = 0;
    thread->block = thread->id = 0;
    thread->bare = !(flags & sys::kCloneSetTls);
    const Thread* const creator = find_thread(sys::gettid());
    thread->held = creator ? creator->held : 0;  // as its mask, which the new frame has
    inherit_affinity(creator, *thread);
  }
  const bool named = thread && ids_differ();
  if (named) flags &= ~(sys::kCloneParentSetTid | sys::kCloneChildSetTid);
  const i64 result =
      arch::fermata_clone_guest(flags, start, context->rdx, context->r10, context->r8);
  if (result < 0 && thread) set_state(*thread, ThreadState::kFree);
  return named && result > 0 ? name_thread(*thread, u32(result), context) : result;
}

u64 trap_set_tid_address(Half half, u64 address) {
  const u32 tid = sys::gettid();
  if (half == Half::kLower) return tid;
  Thread* const thread = find_thread(tid);
  if (thread) thread->clear_tid = address;
  (void)sys::call(SYS_set_tid_address, address);
  return thread ? thread->id : tid;
}

}  // namespace fermata::launch
