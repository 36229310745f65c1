// SPDX-License-Identifier: Apache-2.0
// Signals belong to the application. The kernel's table of actions is the upper half's; the lower
// half is told that it set what it wanted, and nothing happens. Our two signals are hidden: neither
// half can block them or see their handlers.
//
// What the surroundings of a restart ignore (nohup) and the program had at its default is ignored
// until the program wants something else, as at any start. The next image has the default all the
// same: also if the program has ignored it for a while, as system(3) does.
//
// Handlers are told who has sent a signal, by process id. After a restart the kernel's is not the
// one that the application goes by, so handlers that want to know (SA_SIGINFO) are entered through
// a few instructions of vdso.S that put the kept one in its place. pthread_cancel relies on it.
#include "launcher/threads/signals.h"

#include "halves/crossing.h"
#include "launcher/ids/senders.h"
#include "launcher/ids/thread.h"
#include "launcher/ids/thread_ids.h"
#include "launcher/patch/vdso.h"
#include "launcher/threads/held_signals.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

u64 ignored_around;  // signals that this restart's surroundings ignore, not the program
sys::KernelAction hidden[2];  // what the application believes of kSignalTrap and kSignalQuiesce

bool is_wrapped(const sys::KernelAction& action) {
  return action.handler && (action.handler == handler_address || action.handler == noting_address ||
                            action.handler == noting_told_address);
}

/// To be entered through vdso.S, if it is a handler that is told the sender, or of a signal that is
/// to save the job. A child's stay as they are: if vfork(2) made it, the table is its parent's.
void wrap(int signal, sys::KernelAction& action) {
  if (action.handler <= sys::kSigIgn || is_forked_child()) return;
  const bool is_corrected = ids_differ() && action.flags & sys::kSaSigInfo;
  u64 entry = is_corrected ? handler_address : 0;
  if (is_told(signal) && noting_address)
    entry = is_corrected ? noting_told_address : noting_address;
  if (!entry) return;
  __atomic_store_n(&told_handler(signal), action.handler, __ATOMIC_RELEASE);
  action.handler = entry;
}

/// What the kernel is to have for an action of the program.
void adapt(int signal, sys::KernelAction& action) {
  wrap(signal, action);
  hide_default(signal, action);
}

/// Of a signal of ours: the program is told what it wants to hear.
u64 believe(sys::KernelAction& belief, const sys::KernelAction* wanted,
            sys::KernelAction* previous) {
  const sys::KernelAction before = belief;
  if (wanted) belief = *wanted;
  if (previous) *previous = before;
  return 0;
}

bool is_lower_thread() {
  const bool own_process = sys::getpid() == threads[0].tid;  // not a child on its way to exec
  return own_process && !find_thread(sys::gettid());
}

}  // namespace

u64 trap_sigaction(Half half, u64 signal, u64 action, u64 old, u64 set_bytes,
                   UserContext* context) {
  const sys::KernelAction* wanted = reinterpret_cast<const sys::KernelAction*>(action);
  sys::KernelAction* previous = reinterpret_cast<sys::KernelAction*>(old);
  if (half == Half::kLower) {
    if (previous) *previous = {};
    return 0;
  }
  if (signal == kSignalTrap || signal == kSignalQuiesce)
    return believe(hidden[signal == kSignalQuiesce], wanted, previous);
  if (signal < 1 || signal > 64) return pass_on(SYS_rt_sigaction, {signal, action, old, set_bytes});
  const ActionKept kept{int(signal)};
  const u64 handler_before = told_handler(int(signal));
  const sys::KernelAction default_before = hidden_default(int(signal));
  const u64 handler = wanted ? wanted->handler : 0;  // `old` may be the same place
  sys::KernelAction stripped;
  if (wanted) {
    stripped = *wanted;
    stripped.mask &= ~kOurSignals;
    adapt(int(signal), stripped);
  }
  const i64 result = arch::raw_syscall(SYS_rt_sigaction, signal,
                                       wanted ? sys::arg(&stripped) : 0, old, set_bytes);
  if (result != 0) return u64(result);
  if (previous && is_wrapped(*previous)) previous->handler = handler_before;
  if (previous && hides_default(*previous)) *previous = default_before;
  if (wanted) note_action(int(signal), handler, context);
  if (wanted && handler != sys::kSigIgn && !is_forked_child())
    (void)__atomic_fetch_and(&ignored_around, ~sys::signal_bit(int(signal)), __ATOMIC_RELAXED);
  return 0;
}

/// The handler's own mask is not the guest's: the frame's is, and rt_sigreturn installs it.
/// A thread that the lower half has made keeps everything blocked: a signal for the process would
/// run the application's handler there, without the application's thread register.
u64 trap_sigprocmask(Half half, u64 how, u64 set, u64 old, u64 set_bytes, UserContext* context) {
  if (set_bytes != 8) return u64(-i64(sys::kEinval));
  Thread* const thread = holding_thread();
  const u64 before = thread ? shown_mask(*thread, context->mask) : context->mask;
  if (set) {
    const u64 given = *reinterpret_cast<const u64*>(set);
    u64 mask = before;
    switch (how) {
      case sys::kSigBlock: mask |= given; break;
      case sys::kSigUnblock: mask &= ~given; break;
      case sys::kSigSetMask: mask = given; break;
      default: return u64(-i64(sys::kEinval));
    }
    if (half == Half::kLower && is_lower_thread()) mask = ~u64(0);
    if (thread) hold_in_mask(*thread, mask);
    context->mask = mask & ~kOurSignals;
  }
  if (old) *reinterpret_cast<u64*>(old) = before;
  return 0;
}

void tell_of_handler(int signal) {
  sys::KernelAction action;
  if (!sys::sigaction(signal, nullptr, &action) || is_wrapped(action)) return;
  wrap(signal, action);
  (void)sys::sigaction(signal, &action, nullptr);
}

void save_actions(image::Writer& writer) {
  for (int signal = 1; signal <= 64; signal++) {
    sys::KernelAction action;
    if (signal == kSignalTrap || signal == kSignalQuiesce) continue;
    if (!sys::sigaction(signal, nullptr, &action)) continue;
    if (ignored_around & sys::signal_bit(signal)) action = {};
    if (is_wrapped(action)) action.handler = told_handler(signal);
    if (hides_default(action)) action = hidden_default(signal);
    image::ImageAction* out = writer.actions.add();
    *out = {u32(signal), 0, action.handler, action.flags, action.restorer, action.mask};
  }
}

void restore_actions(const image::Reader& reader) {
  for (u64 i = 0; i < reader.header->actions.count; i++) {
    const image::ImageAction& saved = reader.actions[i];
    if (saved.handler == 0 && saved.flags == 0) {
      sys::KernelAction given;
      if (sys::sigaction(int(saved.signal), nullptr, &given) && given.handler == sys::kSigIgn)
        ignored_around |= sys::signal_bit(int(saved.signal));
      continue;
    }
    sys::KernelAction action{saved.handler, saved.flags, saved.restorer, saved.mask};
    adapt(int(saved.signal), action);
    (void)sys::sigaction(int(saved.signal), &action, nullptr);
    note_action(int(saved.signal), saved.handler, nullptr);
  }
}

}  // namespace fermata::launch
