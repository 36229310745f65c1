// SPDX-License-Identifier: Apache-2.0
// The threads of both halves. Making a thread traps: the child must continue at the trapped
// instruction with its creator's registers on its new stack, a lower thread with its thread block
// on GS instead of FS. Upper threads are entered in a table, so that a checkpoint can stop them
// all: a signal makes each wait in the kernel with its context in a frame on its own stack.
//
// Invariant: a thread that has been counted as standing (kKept) leaves after release() only; one
//            that has been released and has not left yet is not counted again.
#include <asm/unistd.h>

#include "launcher/launcher.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata::launch {

Thread threads[kThreadCapacity];

namespace {

u32 release_count;  // futex: goes up when stopped threads may continue; they note it as their round
u32 hold_count;     // futex: goes up when the MPI thread enters hold()
u32 made_count;     // goes up when a thread is to be made
u32 stop_wanted;    // all are to stop; 0: a thread that stopped of its own accord looks again

void set_state(Thread& thread, ThreadState state) {
  __atomic_store_n(&thread.state, state, __ATOMIC_RELEASE);
}
ThreadState get_state(const Thread& thread) {
  return __atomic_load_n(&thread.state, __ATOMIC_ACQUIRE);
}
/// Nobody else changes the state of a thread that stands, but between these two.
bool change_state(Thread& thread, ThreadState from, ThreadState to) {
  return __atomic_compare_exchange_n(&thread.state, &from, to, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

Thread* reserve_thread() {
  for (Thread& thread : threads)
    if (change_state(thread, ThreadState::kFree, ThreadState::kReserved)) {
      __atomic_add_fetch(&made_count, 1, __ATOMIC_RELEASE);
      return &thread;
    }
  return nullptr;
}

/// Whether the thread stands and will, until release().
bool keep(Thread& thread) {
  const u32 round = __atomic_load_n(&release_count, __ATOMIC_ACQUIRE);
  if (!stands(thread) || thread.round != round) return false;
  (void)change_state(thread, ThreadState::kStopped, ThreadState::kKept);
  return get_state(thread) == ThreadState::kKept;
}

/// Whether the thread, which stands, continues without having been released: not once it is kept.
bool thinks_better(Thread& thread) {
  return change_state(thread, ThreadState::kStopped, ThreadState::kLive);
}

Gate* gate_of(u64 fs_base) {
  return reinterpret_cast<Gate*>(fs_base + u64(crossing().gate_offset));
}

/// Whether the checkpoint that the thread stands for has been given up, as far as can be seen.
bool is_over(const Thread& thread) {
  const Crossing& shared = crossing();
  Phase phase;
  __atomic_load(&shared.phase, &phase, __ATOMIC_ACQUIRE);
  return __atomic_load_n(&shared.pending, __ATOMIC_ACQUIRE) == 0 ||
         (thread.hold_stack && phase != Phase::kSave);  // it came to hold() too late
}

/// Stops here until release(), which whoever counts the thread owes it: park() does it in the end
/// (release_others), save() where it fails, the agent otherwise (resume). A thread that nobody has
/// counted continues of its own accord, too: when the checkpoint is given up, and when it turns out
/// that nobody wants all threads stopped any more: it may have decided to stop on an older state of
/// affairs, and the rank may need it. The frame and the thread pointer are what a restart needs.
void stop_thread(Thread& thread, UserContext* frame) {
  constexpr u64 kLookAgainNs = 10'000'000;
  const u32 round = __atomic_load_n(&release_count, __ATOMIC_ACQUIRE);
  thread.round = round;
  thread.frame = sys::word(frame);
  thread.fs_base = arch::read_fs_base();
  (void)sys::call(SYS_get_robust_list, 0, sys::word(&thread.robust_list),
                  sys::word(&thread.robust_bytes));
  note_own_traits(thread);
  note_own_settings(thread);
  note_changes(thread);
  set_state(thread, ThreadState::kStopped);
  while (__atomic_load_n(&release_count, __ATOMIC_ACQUIRE) == round) {
    if (is_over(thread) && thinks_better(thread)) break;
    sys::futex_wait(&release_count, round, kLookAgainNs);
    take_own_signals(thread.tid);
    const bool wanted = thread.hold_stack || __atomic_load_n(&stop_wanted, __ATOMIC_ACQUIRE);
    if (!wanted && thinks_better(thread)) break;
  }
  const bool released = __atomic_load_n(&release_count, __ATOMIC_ACQUIRE) != round;
  if (released && !thread.hold_stack) faults::fault(faults::Fault::kSaveLeaving);
  if (crossing().pending && !thread.bare) gate_of(thread.fs_base)->interrupted = 1;
  set_state(thread, ThreadState::kLive);
  return_signals();
}

constexpr u64 kCloneSetTls = 0x80000, kCloneParentSetTid = 0x100000,
              kCloneChildClearTid = 0x200000, kCloneChildSetTid = 0x1000000;

bool in_launcher(u64 address) { return address >= kLauncherBase && address < kLauncherEnd; }

void on_quiesce(int, arch::SignalInfo*, void* frame) {
  const Crossing& shared = crossing();
  if (!shared.upper) return;
  Thread* thread = find_thread(sys::gettid());
  if (thread && in_launcher(static_cast<UserContext*>(frame)->rip)) {
    thread->asked = 0;  // a new thread, not quite there yet: it will be asked again
    return;
  }
  carry_call(static_cast<UserContext*>(frame), thread ? &thread->sample : nullptr);
  Gate* gate = gate_of(arch::read_fs_base());
  const bool bare = thread && thread->bare;  // the gate is its creator's
  if (!bare && (gate->depth || gate->lock_depth)) {
    // Inside the lower half, whose frames cannot be saved: stop on the way out.
    gate->interrupted = 1;
  } else if (thread && shared.pending) {
    if (thread->id == shared.mpi_tid)  // then this does not return
      arch::fermata_park(sys::word(frame), shared.upper->park, kTrampoline,
                         in_first_stack(sys::word(frame)) ? 0 : shared.upper->park_stack);
    stop_thread(*thread, static_cast<UserContext*>(frame));
  }
  settle_carried_call(static_cast<UserContext*>(frame));
}

}  // namespace

Thread* find_thread(u32 tid) {
  for (Thread& thread : threads)
    if (thread.state >= ThreadState::kLive && thread.tid == tid) return &thread;
  return nullptr;
}

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
  // Signals are open from its own first instruction on, and not before: the handler of one that
  // waits for it would return to us, whose code lies elsewhere once the launcher is built anew.
  arch::fermata_sigreturn_to(start->frame);
}

namespace {

/// The id, and the places where the creator wants it, while the new thread waits.
i64 name_thread(Thread& thread, u32 tid, const UserContext* context) {
  const u32 id = choose_id(thread, tid);
  if (context->rdi & kCloneParentSetTid) *reinterpret_cast<u32*>(context->rdx) = id;
  if (context->rdi & kCloneChildSetTid) *reinterpret_cast<u32*>(context->r10) = id;
  __atomic_store_n(&thread.id, id, __ATOMIC_RELEASE);
  sys::futex_wake_all(&thread.id);
  return id;
}

/// Puts a frame below `top` from which a thread continues as its creator would, on `stack`.
UserContext* frame_for_thread(const UserContext& creator, u64 top, u64 stack) {
  constexpr i32 kNoAltStack = 2;  // SS_DISABLE
  const u8* const state = reinterpret_cast<const u8*>(creator.fpstate);
  const bool extended =
      *reinterpret_cast<const u32*>(state + arch::kFxMagic) == arch::kFxHasExtended;
  const u64 bytes = extended ? *reinterpret_cast<const u32*>(state + arch::kFxExtended)
                             : arch::kFxBytes;
  u8* const copy = reinterpret_cast<u8*>((top - bytes) & ~u64(63));
  __builtin_memcpy(copy, state, bytes);
  UserContext* const frame =
      reinterpret_cast<UserContext*>((sys::word(copy) - sizeof(UserContext)) & ~u64(63));
  *frame = creator;
  frame->fpstate = sys::word(copy);
  frame->rsp = stack;
  frame->rax = 0;  // what clone(2) returns in the child
  frame->mask &= ~kOurSignals;
  frame->stack_base = frame->stack_bytes = 0;
  frame->stack_flags = kNoAltStack;
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
  const u64 below = is_lower ? top : sys::word(frame);
  arch::ThreadStart* start =
      reinterpret_cast<arch::ThreadStart*>((below - sizeof(arch::ThreadStart)) & ~u64(63));
  const u8* fp = reinterpret_cast<const u8*>(context->fpstate);
  *start = {context->rbx, context->rbp, context->rdi, context->rsi, context->rdx, context->r8,
            context->r9,  context->r10, context->r12, context->r13, context->r14, context->r15,
            stack,        context->rip, *reinterpret_cast<const u32*>(fp + arch::kFxMxcsr),
            *reinterpret_cast<const u16*>(fp + arch::kFxControlWord),
            // A signal for the process must find an application thread: lower ones take none.
            ~kOurSignals | sys::signal_bit(kSignalQuiesce), context->r8, is_lower,
            sys::word(frame), thread ? u64(thread - threads) : 0};
  u64 flags = context->rdi;
  if (is_lower) flags &= ~kCloneSetTls;
  if (thread) {
    thread->clear_tid = (flags & kCloneChildClearTid) ? context->r10 : 0;
    thread->frame = thread->hold_stack = 0;
    thread->asked = 0;
    thread->block = thread->id = 0;
    thread->bare = !(flags & kCloneSetTls);
    inherit_affinity(find_thread(sys::gettid()), *thread);
  }
  const bool named = thread && ids_differ();
  if (named) flags &= ~(kCloneParentSetTid | kCloneChildSetTid);
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

void adopt_main_thread() {
  Thread& thread = threads[0];
  thread.tid = thread.id = sys::gettid();
  set_state(thread, ThreadState::kLive);
}

void install_quiesce_handler() {
  const sys::KernelAction action{sys::word(&on_quiesce),
                                 sys::kSaSigInfo | sys::kSaRestorer | sys::kSaRestart,
                                 sys::word(&arch::fermata_restorer),
                                 ~sys::signal_bit(kSignalTrap)};
  const Result<u64> done = sys::sigaction(kSignalQuiesce, &action, nullptr);
  if (!done) die("cannot install the quiesce handler", "SIGRTMAX", done.error, "");
}

u32 stop_others() {
  // A thread is asked once for each checkpoint, and again after each release.
  const u64 wanted = u64(crossing().pending) << 32 | (release_count + 1);
  const u32 pid = sys::getpid(), self = sys::gettid();
  u32 running = 0;
  const u32 made = __atomic_load_n(&made_count, __ATOMIC_ACQUIRE);
  __atomic_store_n(&stop_wanted, 1, __ATOMIC_RELEASE);
  for (Thread& thread : threads) {
    const ThreadState state = get_state(thread);
    if (state == ThreadState::kFree || keep(thread)) continue;
    if (state == ThreadState::kLive && thread.tid == self) continue;
    running++;
    if (state != ThreadState::kLive || thread.asked == wanted) continue;
    const u32 tid = thread.tid;
    sample_call(thread);
    thread.asked = wanted;  // before: the thread may take it back at once
    const bool asked = bool(sys::tgkill(pid, tid, kSignalQuiesce));
    // The slot may be another thread's by now.
    if (!asked || get_state(thread) < ThreadState::kLive || thread.tid != tid) thread.asked = 0;
  }
  // One that has stopped may have made another in a slot that had been passed.
  return running + (__atomic_load_n(&made_count, __ATOMIC_ACQUIRE) != made);
}

Status quiesce(u64 deadline_ns, u32* late) {
  while (stop_others() != 0) {
    if (sys::now_ns() > deadline_ns) {
      for (Thread& thread : threads)
        if (get_state(thread) >= ThreadState::kLive && !keep(thread)) *late = thread.id;
      return failure(sys::kEbusy);
    }
    sys::sleep_ns(20'000);
  }
  return success();
}

void nudge(u32 id) {
  Thread* const thread = find_thread_by_id(id);
  if (!thread) return;
  if (thread->tid != sys::gettid()) sample_call(*thread);
  (void)sys::tgkill(sys::getpid(), thread->tid, kSignalQuiesce);
}

void leave(void* frame) {
  static bool left_once;
  arm_restored_timers();  // before other threads can set them
  if (config.restore[0] && !left_once) faults::fault(faults::Fault::kRestoreLeaving);
  left_once = true;
  return_signals();
  settle_carried_call(static_cast<UserContext*>(frame));
}

void wake_stopped() { sys::futex_wake_all(&release_count); }

void release() {
  __atomic_store_n(&stop_wanted, 0, __ATOMIC_RELEASE);
  __atomic_add_fetch(&release_count, 1, __ATOMIC_RELEASE);
  sys::futex_wake_all(&release_count);
}

Status await_hold(u64 deadline_ns) {
  for (;;) {
    const Thread* thread = find_thread_by_id(crossing().mpi_tid);
    if (thread && stands(*thread) && thread->hold_stack) return success();
    const u32 seen = __atomic_load_n(&hold_count, __ATOMIC_ACQUIRE);
    if (sys::now_ns() > deadline_ns) return failure(sys::kEtimedout);
    sys::futex_wait(&hold_count, seen, 1'000'000);
  }
}

extern "C" i32 fermata_hold(void* frame, u64 stack) {
  Thread* thread = find_thread(sys::gettid());
  if (!thread) return kHoldResumed;
  thread->hold_stack = stack;
  // Counted after the state is set, in stop_thread's order: await_hold polls the state as well.
  __atomic_add_fetch(&hold_count, 1, __ATOMIC_RELEASE);
  stop_thread(*thread, static_cast<UserContext*>(frame));
  thread->hold_stack = 0;
  return kHoldResumed;
}

}  // namespace fermata::launch
