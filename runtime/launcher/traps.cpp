// SPDX-License-Identifier: Apache-2.0
// The trap handler behind the filter (boundary/filter.cpp): each call that traps has one function
// that performs it on its guest's behalf, in the room that knows what the call is about.
#include "launcher/traps.h"

#include "arch/x86_64/context.h"
#include "halves/crossing.h"
#include "launcher/boundary/call_restart.h"
#include "launcher/boundary/filter.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/ids/proc_paths.h"
#include "launcher/ids/process_ids.h"
#include "launcher/image/restore.h"
#include "launcher/load/placement.h"
#include "launcher/process/descriptors.h"
#include "launcher/process/exec.h"
#include "launcher/process/undone.h"
#include "launcher/threads/affinity.h"
#include "launcher/threads/clocks.h"
#include "launcher/threads/clone.h"
#include "launcher/threads/end.h"
#include "launcher/threads/held_signals.h"
#include "launcher/threads/signals.h"
#include "launcher/threads/timers.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

u64 trap_arch_prctl(u64 operation, u64 address) {
  if (operation == sys::kArchSetFs) return arch::write_gs_base(address), 0;
  if (operation == sys::kArchGetFs) {
    *reinterpret_cast<u64*>(address) = arch::read_gs_base();
    return 0;
  }
  if (operation == sys::kArchSetGs) return u64(-sys::kEperm);
  return pass_on(SYS_arch_prctl, {operation, address});
}

/// A call that has trapped.
struct Trap {
  Half half;
  u64 number;
  const u64 (&a)[6];
  UserContext* context;
};
using Performer = u64 (*)(const Trap&);

// Of several calls each.
u64 masked(const Trap& t) { return trap_masked_call(t.number, t.context, held_in_calls()); }
u64 timed(const Trap& t) { return trap_timed_wait(t.number, t.context); }
u64 waiting(const Trap& t) { return trap_waiting_call(t.number, t.context); }
u64 of_clock(const Trap& t) { return trap_clock_call(t.number, t.a); }
u64 undone(const Trap& t) { return trap_undone_call(t.number, t.a); }
u64 executing(const Trap& t) {
  return trap_upper_exec(t.number, t.a, mask_for_exec(t.context));
}
u64 forking(const Trap& t) { return trap_fork(t.number, t.a, t.context); }
u64 cloning(const Trap& t) {
  return t.a[0] & sys::kCloneThread ? u64(trap_clone(t.half, t.context)) : forking(t);
}
u64 sending(const Trap& t) { return trap_sending_call(t.half, t.number, t.a, t.context); }
u64 reading_link(const Trap& t) { return trap_upper_readlink(t.number, t.a); }
u64 opening(const Trap& t) {
  return t.half == Half::kUpper ? trap_upper_open(t.number, t.a)
                                : trap_lower_descriptor(t.number, t.a);
}
u64 pairing(const Trap& t) {
  return t.half == Half::kUpper ? trap_upper_socketpair(t.a)
                                : trap_lower_descriptor(t.number, t.a);
}
u64 left_out(const Trap&) { return 0; }
u64 missing(const Trap&) { return u64(-sys::kEnosys); }

struct Performed {
  u16 number;
  Performer perform;
};
constexpr Performed kPerformed[] = {
    // Memory and System V IPC.
    {SYS_mmap,
     [](const Trap& t) {
       return trap_mmap(t.half, t.a[0], t.a[1], t.a[2], t.a[3], t.a[4], t.a[5]);
     }},
    {SYS_mremap,
     [](const Trap& t) { return trap_mremap(t.a[0], t.a[1], t.a[2], t.a[3], t.a[4]); }},
    {SYS_brk, [](const Trap& t) { return trap_brk(t.a[0]); }},
    {SYS_madvise, [](const Trap& t) { return trap_fork_advice(t.a[0], t.a[1], t.a[2]); }},
    {SYS_mlockall, [](const Trap& t) { return trap_mlockall(t.a[0]); }},
    {SYS_munlockall, [](const Trap&) { return trap_munlockall(); }},
    {SYS_io_setup, [](const Trap& t) { return trap_io_setup(t.a[0], t.a[1]); }},
    {SYS_shmget, [](const Trap& t) { return trap_shmget(t.a[0], t.a[1], t.a[2]); }},
    {SYS_shmctl, [](const Trap& t) { return trap_shmctl(t.a[0], t.a[1], t.a[2]); }},
    {SYS_shmat, [](const Trap& t) { return trap_shmat(t.a[0], t.a[1], t.a[2]); }},
    {SYS_semget, [](const Trap& t) { return trap_semget(t.a[0], t.a[1], t.a[2]); }},
    {SYS_msgget, [](const Trap& t) { return trap_msgget(t.a[0], t.a[1]); }},

    // Signals, threads and processes.
    {SYS_rt_sigprocmask,
     [](const Trap& t) {
       return trap_sigprocmask(t.half, t.a[0], t.a[1], t.a[2], t.a[3], t.context);
     }},
    {SYS_rt_sigaction,
     [](const Trap& t) {
       return trap_sigaction(t.half, t.a[0], t.a[1], t.a[2], t.a[3], t.context);
     }},
    {SYS_kill, sending},            {SYS_tkill, sending},
    {SYS_tgkill, sending},          {SYS_rt_sigqueueinfo, sending},
    {SYS_rt_tgsigqueueinfo, sending},
    {SYS_clone, cloning},           {SYS_fork, forking},
    {SYS_exit, [](const Trap& t) { return trap_exit(t.a[0], t.context); }},
    {SYS_set_tid_address, [](const Trap& t) { return trap_set_tid_address(t.half, t.a[0]); }},
    {SYS_arch_prctl, [](const Trap& t) { return trap_arch_prctl(t.a[0], t.a[1]); }},
    {SYS_sched_setaffinity, [](const Trap& t) { return trap_set_affinity(t.a); }},
    {SYS_timer_create, [](const Trap& t) { return trap_timer_create(t.a); }},

    // Files and programs.
    {SYS_open, opening},            {SYS_openat, opening},
    {SYS_readlink, reading_link},   {SYS_readlinkat, reading_link},
    {SYS_execve, executing},        {SYS_execveat, executing},
    {SYS_socketpair, pairing},
    {SYS_inotify_add_watch, [](const Trap& t) { return trap_upper_watch(t.a); }},

    // Calls that wait, and clocks.
    {SYS_rt_sigsuspend, masked},    {SYS_rt_sigtimedwait, masked},
    {SYS_ppoll, masked},            {SYS_pselect6, masked},
    {SYS_epoll_pwait, masked},      {SYS_epoll_pwait2, masked},
    {SYS_clock_nanosleep, timed},   {SYS_futex, timed},
    {u16(sys::kSysFutexWaitv), timed},
    {SYS_wait4, waiting},           {SYS_waitid, waiting},
    {SYS_clock_gettime, of_clock},  {SYS_times, of_clock},
    {SYS_timerfd_settime, of_clock}, {SYS_timer_settime, of_clock},

    // What a restart would undo.
    {SYS_setsockopt, undone},       {SYS_prctl, undone},
    {SYS_seccomp, undone},          {SYS_unshare, undone},
    {SYS_setns, undone},            {SYS_chroot, undone},
    {SYS_pivot_root, undone},       {SYS_ioperm, undone},
    {SYS_iopl, undone},             {SYS_keyctl, undone},
    {SYS_add_key, undone},          {SYS_request_key, undone},
    {u16(sys::kSysLandlockRestrictSelf), undone},

    // Never performed.
    {SYS_set_robust_list, left_out},  // the kernel keeps one per thread, and it is the upper half's
    {SYS_sigaltstack, left_out},
    {SYS_clone3, missing},          // glibc falls back to clone, whose flags a filter can read
    {SYS_io_uring_setup, missing},  // nothing tells what is under way in a ring
    {SYS_rseq, missing},
};

/// The same by number. A number that is too large, or there twice, does not compile.
struct Performers {
  static constexpr u64 kCount = 512;
  Performer of[kCount] = {};

  consteval Performers() {
    for (const Performed& call : kPerformed) {
      if (of[call.number]) __builtin_unreachable();
      of[call.number] = call.perform;
    }
  }
};
constexpr Performers kPerformers;

u64 perform(const Trap& trap) {
  const Performer own = trap.number < Performers::kCount ? kPerformers.of[trap.number] : nullptr;
  if (own) return own(trap);
  return trap.half == Half::kUpper ? trap_id_call(trap.number, trap.a)
                                   : trap_lower_descriptor(trap.number, trap.a);
}

void trap_handler(int, arch::SignalInfo* info, void* frame) {
  if (info->code != sys::kSiSysSeccomp) return;  // somebody's kill(pid, SIGSYS): ours to ignore
  UserContext* context = static_cast<UserContext*>(frame);
  const u64 arguments[6] = {context->rdi, context->rsi, context->rdx,
                            context->r10, context->r8,  context->r9};
  context->rax = perform({Half(info->error), u64(info->number), arguments, context});
}

}  // namespace

void install_boundary(bool with_filter) {
  const sys::KernelAction action{
      sys::arg(&trap_handler), sys::kSaSigInfo | sys::kSaRestorer | sys::kSaNoDefer,
      sys::arg(&arch::fermata_restorer),
      // Traps are short: every other signal waits, so that none sees a call half done.
      ~kOurSignals | sys::signal_bit(kSignalQuiesce)};
  const Result<u64> handler = sys::sigaction(kSignalTrap, &action, nullptr);
  if (!handler) die("cannot install the trap handler", "SIGSYS", handler.error, "");
  if (with_filter)
    install_filter({config.restore[0] != 0, clocks_shifted(), saved_with_helpers},
                   signals_to_hold());
}

}  // namespace fermata::launch
