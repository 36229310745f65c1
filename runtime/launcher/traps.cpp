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

/// What concerns signals and masks, or makes another thread, process or program; and the rest.
u64 perform_of_process(Half half, u64 number, const u64 (&a)[6], UserContext* context) {
  switch (number) {
    case SYS_rt_sigprocmask: return trap_sigprocmask(half, a[0], a[1], a[2], a[3], context);
    case SYS_rt_sigaction: return trap_sigaction(half, a[0], a[1], a[2], a[3], context);
    case SYS_clone:
      return a[0] & sys::kCloneThread ? u64(trap_clone(half, context))
                                      : trap_fork(number, a, context);
    case SYS_fork: return trap_fork(number, a, context);
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo: return trap_sending_call(half, number, a, context);
    case SYS_execve:
    case SYS_execveat: return trap_upper_exec(number, a, mask_for_exec(context));
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
    case SYS_ppoll:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_pselect6: return trap_masked_call(number, context, held_in_calls());
    default:
      return half == Half::kUpper ? trap_id_call(number, a) : trap_lower_descriptor(number, a);
  }
}

u64 perform(Half half, u64 number, const u64 (&a)[6], UserContext* context) {
  switch (number) {
    case SYS_mmap: return trap_mmap(half, a[0], a[1], a[2], a[3], a[4], a[5]);
    case SYS_mremap: return trap_mremap(a[0], a[1], a[2], a[3], a[4]);
    case SYS_brk: return trap_brk(a[0]);
    case SYS_semget: return trap_semget(a[0], a[1], a[2]);
    case SYS_msgget: return trap_msgget(a[0], a[1]);
    case SYS_mlockall: return trap_mlockall(a[0]);
    case SYS_munlockall: return trap_munlockall();
    case SYS_io_setup: return trap_io_setup(a[0], a[1]);
    case SYS_shmget: return trap_shmget(a[0], a[1], a[2]);
    case SYS_shmctl: return trap_shmctl(a[0], a[1], a[2]);
    case SYS_shmat: return trap_shmat(a[0], a[1], a[2]);
    case SYS_madvise: return trap_fork_advice(a[0], a[1], a[2]);
    case SYS_timer_create: return trap_timer_create(a);
    case SYS_exit: return trap_exit(a[0], context);
    case SYS_sched_setaffinity: return trap_set_affinity(a);
    case SYS_socketpair:
      return half == Half::kUpper ? trap_upper_socketpair(a) : trap_lower_descriptor(number, a);
    case SYS_inotify_add_watch: return trap_upper_watch(a);
    case SYS_readlink:
    case SYS_readlinkat: return trap_upper_readlink(number, a);
    case SYS_set_tid_address: return trap_set_tid_address(half, a[0]);
    case SYS_arch_prctl: return trap_arch_prctl(a[0], a[1]);
    case SYS_clock_gettime:
    case SYS_timerfd_settime:
    case SYS_timer_settime:
    case SYS_times: return trap_clock_call(number, a);
    case SYS_clock_nanosleep:
    case SYS_futex:
    case sys::kSysFutexWaitv: return trap_timed_wait(number, context);
    case SYS_wait4:
    case SYS_waitid: return trap_waiting_call(number, context);
    case SYS_open:
    case SYS_openat:
      return half == Half::kUpper ? trap_upper_open(number, a) : trap_lower_descriptor(number, a);
    case SYS_setsockopt:
    case SYS_prctl:
    case SYS_seccomp:
    case SYS_unshare:
    case SYS_setns:
    case SYS_chroot:
    case SYS_pivot_root:
    case SYS_ioperm:
    case SYS_iopl:
    case SYS_keyctl:
    case SYS_add_key:
    case SYS_request_key:
    case sys::kSysLandlockRestrictSelf: return trap_undone_call(number, a);
    case SYS_set_robust_list:  // the kernel keeps one list per thread, and it is the upper half's
    case SYS_sigaltstack: return 0;
    case SYS_clone3:  // glibc falls back to clone, whose flags a filter can read
    case SYS_io_uring_setup:  // nothing tells what is under way in a ring
    case SYS_rseq: return u64(-sys::kEnosys);
    default: return perform_of_process(half, number, a, context);
  }
}

void trap_handler(int, arch::SignalInfo* info, void* frame) {
  if (info->code != sys::kSiSysSeccomp) return;  // somebody's kill(pid, SIGSYS): ours to ignore
  UserContext* context = static_cast<UserContext*>(frame);
  const u64 arguments[6] = {context->rdi, context->rsi, context->rdx,
                            context->r10, context->r8,  context->r9};
  context->rax = perform(Half(info->error), u64(info->number), arguments, context);
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
