// SPDX-License-Identifier: Apache-2.0
// All upper threads stand still for a checkpoint: a signal makes each wait in the kernel with its
// context in a frame on its own stack. The table of threads says which there are.
//
// Invariant: a thread that has been counted as standing (kKept) leaves after release() only; one
//            that has been released and has not left yet is not counted again. Checked where it
//            leaves, and of all of them where the image is cut.
#include "launcher/threads/stop.h"

#include <asm/unistd.h>

#include "arch/x86_64/context.h"
#include "halves/crossing.h"
#include "launcher/boundary/call_restart.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/patch/vdso.h"
#include "launcher/process/limits.h"
#include "launcher/process/settings.h"
#include "launcher/process/undone.h"
#include "launcher/threads/clone.h"
#include "launcher/threads/held_signals.h"
#include "launcher/threads/pending.h"
#include "launcher/threads/scheduling.h"
#include "launcher/threads/syscall_restart.h"
#include "launcher/threads/timers.h"
#include "sys/check.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata::launch {

namespace {

u32 release_count;  // futex: goes up when stopped threads may continue; they note it as their round
u32 hold_count;     // futex: goes up when the MPI thread enters hold()
u32 stop_wanted;    // all are to stop; 0: a thread that stopped of its own accord looks again

/// Whether the thread stands and will, until release().
bool keep(Thread& thread) {
  const u32 round = __atomic_load_n(&release_count, __ATOMIC_ACQUIRE);
  if (!stands(thread) || thread.round != round) return false;
  (void)change_state(thread, ThreadState::kStopped, ThreadState::kKept);
  return state_of(thread) == ThreadState::kKept;
}

/// Whether the thread, which stands, continues without having been released: not once it is kept.
bool resume_voluntarily(Thread& thread) {
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
  thread.frame = sys::arg(frame);
  thread.fs_base = arch::read_fs_base();
  (void)sys::call(SYS_get_robust_list, 0, sys::arg(&thread.robust_list),
                  sys::arg(&thread.robust_bytes));
  note_own_traits(thread);
  note_own_settings(thread);
  note_changes(thread);
  set_state(thread, ThreadState::kStopped);
  while (__atomic_load_n(&release_count, __ATOMIC_ACQUIRE) == round) {
    if (is_over(thread) && resume_voluntarily(thread)) break;
    sys::futex_wait(&release_count, round, kLookAgainNs);
    take_own_signals(thread.tid);
    const bool wanted = thread.hold_stack || __atomic_load_n(&stop_wanted, __ATOMIC_ACQUIRE);
    if (!wanted && resume_voluntarily(thread)) break;
  }
  const bool released = __atomic_load_n(&release_count, __ATOMIC_ACQUIRE) != round;
  FERMATA_CHECK(released || state_of(thread) != ThreadState::kKept,
                "a thread that has been counted as standing leaves when it is released");
  if (released && !thread.hold_stack) faults::fault(faults::Fault::kSaveLeaving);
  if (crossing().pending && !thread.bare) gate_of(thread.fs_base)->interrupted = 1;
  set_state(thread, ThreadState::kLive);
  return_signals();
}

void on_quiesce(int, arch::SignalInfo*, void* frame) {
  const Crossing& shared = crossing();
  Thread* thread = find_thread(sys::gettid());
  if (thread && in_launcher(static_cast<UserContext*>(frame)->rip)) {
    thread->asked = 0;  // a new thread, not quite there yet: it will be asked again
    return;
  }
  if (thread) renew_held(*thread, static_cast<UserContext*>(frame));
  restart_call(static_cast<UserContext*>(frame), thread ? &thread->sample : nullptr);
  renew_held_in_call(static_cast<UserContext*>(frame), held_in_calls());
  if (!shared.upper) return settle_restarted_call(static_cast<UserContext*>(frame));
  Gate* gate = gate_of(arch::read_fs_base());
  const bool bare = thread && thread->bare;  // the gate is its creator's
  if (!bare && (gate->depth || gate->lock_depth)) {
    // Inside the lower half, whose frames cannot be saved: stop on the way out.
    gate->interrupted = 1;
  } else if (thread && shared.pending) {
    if (thread->id == shared.mpi_tid)  // then this does not return
      arch::fermata_park(sys::arg(frame), shared.upper->park, kTrampoline,
                         in_first_stack(sys::arg(frame)) ? 0 : shared.upper->park_stack);
    stop_thread(*thread, static_cast<UserContext*>(frame));
  }
  settle_restarted_call(static_cast<UserContext*>(frame));
}

}  // namespace

void install_quiesce_handler() {
  const sys::KernelAction action{sys::arg(&on_quiesce),
                                 sys::kSaSigInfo | sys::kSaRestorer | sys::kSaRestart,
                                 sys::arg(&arch::fermata_restorer),
                                 ~sys::signal_bit(kSignalTrap)};
  const Result<u64> done = sys::sigaction(kSignalQuiesce, &action, nullptr);
  if (!done) die("cannot install the quiesce handler", "SIGRTMAX", done.error, "");
}

u32 stop_others() {
  // A thread is asked once for each checkpoint, and again after each release.
  const u64 wanted = u64(crossing().pending) << 32 | (release_count + 1);
  const u32 pid = sys::getpid(), self = sys::gettid();
  u32 running = 0;
  const u32 made = count_of_made_threads();
  __atomic_store_n(&stop_wanted, 1, __ATOMIC_RELEASE);
  for (Thread& thread : threads) {
    const ThreadState state = state_of(thread);
    if (state == ThreadState::kFree || keep(thread)) continue;
    if (state == ThreadState::kLive && thread.tid == self) continue;
    running++;
    if (state != ThreadState::kLive || thread.asked == wanted) continue;
    const u32 tid = thread.tid;
    sample_call(thread);
    thread.asked = wanted;  // before: the thread may take it back at once
    const bool asked = bool(sys::tgkill(pid, tid, kSignalQuiesce));
    // The slot may be another thread's by now.
    if (!asked || state_of(thread) < ThreadState::kLive || thread.tid != tid) thread.asked = 0;
  }
  // One that has stopped may have made another in a slot that had been passed.
  return running + (count_of_made_threads() != made);
}

Status quiesce(u64 deadline_ns, u32* late) {
  while (stop_others() != 0) {
    if (sys::now_ns() > deadline_ns) {
      for (Thread& thread : threads)
        if (state_of(thread) >= ThreadState::kLive && !keep(thread)) *late = thread.id;
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
  set_late_limits();
  if (config.restore[0] && !left_once) faults::fault(faults::Fault::kRestoreLeaving);
  left_once = true;
  return_signals();
  settle_restarted_call(static_cast<UserContext*>(frame));
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
