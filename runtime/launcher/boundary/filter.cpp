// SPDX-License-Identifier: Apache-2.0
// The system call boundary. One seccomp filter looks at the *instruction pointer* of a few calls:
// from which window was it made? Those made from a window trap (SIGSYS) into the handler of
// traps.cpp, which performs them on the guest's behalf; all others go straight to the kernel. So
// the kernel itself tells whose memory, signals, threads and files are whose, and no guest code is
// patched.
//
// The filter loads the call's number first and decides most calls by it alone, so that the kernel's
// allow bitmap (Linux 5.11) applies to them. SECCOMP_FILTER_FLAG_SPEC_ALLOW keeps the speculation
// mitigations as they were. The launcher's own code lies in neither window and never traps.
#include "launcher/boundary/filter.h"

#include <linux/audit.h>
#include <linux/bpf_common.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>

#include "files/registry.h"
#include "halves/layout.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

// Which calls trap, and from where.
enum Rule : u8 {
  kEither,      // from either half
  kUpperOnly,
  kLowerOnly,
  kOpen,        // lower, and ld.so of the upper half: load/fronts.cpp
  kMmap,        // upper: always; lower: code (PROT_EXEC), the first mapping of a library, and what
                // names an address in the upper window
  kClone,       // either, threads only: a fork or vfork child keeps its parent's stack
  kLowerFcntl,  // lower, F_DUPFD and F_DUPFD_CLOEXEC only
  kOwnedClock,  // upper, clocks of one process or thread only
  kOwnedSleep,  // likewise, and not from the vdso page
  kAnyClock,    // upper, also clocks that have an offset
  kAnySleep,    // upper, not from the vdso page: clocks of one process or thread, absolute times
  kFutexDeadline, kAbsoluteWait,  // likewise, absolute times on the monotonic clock; any
  kAbsolute,    // upper, absolute times
  kIdFcntl,     // kLowerFcntl, and from the upper half what takes or tells ids
  kPeer,        // upper, SO_PEERCRED only
  kGroupWait4, kGroupWaitid,  // upper, not from the vdso page: waiting for a group of children
  kMadvise,     // either, MADV_DONTFORK and MADV_WIPEONFORK only
  kUntold,      // upper, options of sockets that nothing tells of
  kPrctl,       // upper, what a restart would undo only
  kSendSecond, kSendThird,  // either, if argument 1 or 2 is a signal that may be held
  kMask,        // upper, not from the vdso page: calls that take a signal mask
  kMask3, kMask4, kMask5,  // likewise, if argument 3, 4 or 5, the mask, is given
};
struct Trapped {
  u16 number;
  Rule rule;
};
constexpr Trapped kTrapped[] = {
    {SYS_mmap, kMmap},
    {SYS_rt_sigprocmask, kEither},
    {SYS_rt_sigaction, kEither},
    {SYS_clone, kClone},
    {SYS_clone3, kEither},
    {SYS_rseq, kEither},
    {SYS_set_tid_address, kEither},
    {SYS_brk, kUpperOnly},
    {SYS_mremap, kUpperOnly},
    {SYS_shmat, kUpperOnly},         {SYS_shmget, kUpperOnly},
    {SYS_shmctl, kUpperOnly},        {SYS_madvise, kMadvise},
    {SYS_semget, kUpperOnly},        {SYS_msgget, kUpperOnly},
    {SYS_mlockall, kUpperOnly},      {SYS_munlockall, kUpperOnly},
    {SYS_io_setup, kUpperOnly},      {SYS_io_uring_setup, kUpperOnly},
    {SYS_inotify_add_watch, kUpperOnly},
    {SYS_execve, kUpperOnly},        {SYS_execveat, kUpperOnly},
    {SYS_readlink, kUpperOnly},      {SYS_readlinkat, kUpperOnly},
    {SYS_exit, kUpperOnly},          {SYS_timer_create, kUpperOnly},
    {SYS_sched_setaffinity, kUpperOnly},
    {SYS_setsockopt, kUntold},       {SYS_prctl, kPrctl},
    {SYS_seccomp, kUpperOnly},       {SYS_unshare, kUpperOnly},
    {SYS_setns, kUpperOnly},         {SYS_chroot, kUpperOnly},
    {SYS_pivot_root, kUpperOnly},    {SYS_ioperm, kUpperOnly},
    {SYS_iopl, kUpperOnly},          {SYS_keyctl, kUpperOnly},
    {SYS_add_key, kUpperOnly},       {SYS_request_key, kUpperOnly},
    {u16(sys::kSysLandlockRestrictSelf), kUpperOnly},
    {SYS_arch_prctl, kLowerOnly},
    {SYS_set_robust_list, kLowerOnly},
    {SYS_sigaltstack, kLowerOnly},
    {SYS_fcntl, kLowerFcntl},
    {SYS_rt_sigsuspend, kMask},      {SYS_rt_sigtimedwait, kMask},
    {SYS_ppoll, kMask3},             {SYS_epoll_pwait, kMask4},
    {SYS_epoll_pwait2, kMask4},      {SYS_pselect6, kMask5},
    {SYS_open, kOpen},               {SYS_openat, kOpen},
    {SYS_openat2, kLowerOnly},       {SYS_creat, kLowerOnly},
    {SYS_socket, kLowerOnly},        {SYS_socketpair, kEither},
    {SYS_accept, kLowerOnly},        {SYS_accept4, kLowerOnly},
    {SYS_pipe, kLowerOnly},          {SYS_pipe2, kLowerOnly},
    {SYS_dup, kLowerOnly},           {SYS_dup2, kLowerOnly},
    {SYS_dup3, kLowerOnly},          {SYS_eventfd, kLowerOnly},
    {SYS_eventfd2, kLowerOnly},      {SYS_epoll_create, kLowerOnly},
    {SYS_epoll_create1, kLowerOnly}, {SYS_timerfd_create, kLowerOnly},
    {SYS_signalfd, kLowerOnly},      {SYS_signalfd4, kLowerOnly},
    {SYS_inotify_init, kLowerOnly},  {SYS_inotify_init1, kLowerOnly},
    {SYS_memfd_create, kLowerOnly},  {SYS_userfaultfd, kLowerOnly},
    {SYS_close, kLowerOnly},
};
// If signals may be held: who sends one, and processes that have their own memory.
constexpr Trapped kTrappedForSignals[] = {
    {SYS_fork, kEither},
    {SYS_kill, kSendSecond},            {SYS_tkill, kSendSecond},
    {SYS_rt_sigqueueinfo, kSendSecond}, {SYS_tgkill, kSendThird},
    {SYS_rt_tgsigqueueinfo, kSendThird},
};
// After a restart, and then before the others: calls that take or tell ids of processes or threads.
constexpr Trapped kTrappedForIds[] = {
    {SYS_clock_gettime, kOwnedClock},     {SYS_clock_getres, kOwnedClock},
    {SYS_clock_nanosleep, kOwnedSleep},
    {SYS_getpid, kUpperOnly},             {SYS_gettid, kUpperOnly},
    {SYS_fcntl, kIdFcntl},                {SYS_getsockopt, kPeer},
    {SYS_open, kEither},                  {SYS_openat, kEither},
    {SYS_tgkill, kUpperOnly},             {SYS_tkill, kUpperOnly},
    {SYS_kill, kUpperOnly},               {SYS_rt_sigqueueinfo, kUpperOnly},
    {SYS_rt_tgsigqueueinfo, kUpperOnly},  {SYS_getppid, kUpperOnly},
    {SYS_getpgrp, kUpperOnly},            {SYS_getpgid, kUpperOnly},
    {SYS_setpgid, kUpperOnly},            {SYS_getsid, kUpperOnly},
    {SYS_setsid, kUpperOnly},
    {SYS_wait4, kGroupWait4},             {SYS_waitid, kGroupWaitid},
    {SYS_sched_getaffinity, kUpperOnly},  {SYS_sched_rr_get_interval, kUpperOnly},
    {SYS_sched_setscheduler, kUpperOnly}, {SYS_sched_getscheduler, kUpperOnly},
    {SYS_sched_setparam, kUpperOnly},     {SYS_sched_getparam, kUpperOnly},
    {SYS_sched_setattr, kUpperOnly},      {SYS_sched_getattr, kUpperOnly},
    {SYS_setpriority, kUpperOnly},        {SYS_getpriority, kUpperOnly},
    {SYS_ioprio_set, kUpperOnly},         {SYS_ioprio_get, kUpperOnly},
    {SYS_get_robust_list, kUpperOnly},    {SYS_prlimit64, kUpperOnly},
    {SYS_process_vm_readv, kUpperOnly},   {SYS_process_vm_writev, kUpperOnly},
    {SYS_kcmp, kUpperOnly},               {SYS_pidfd_open, kUpperOnly},
    {SYS_move_pages, kUpperOnly},         {SYS_migrate_pages, kUpperOnly},
    {SYS_capget, kUpperOnly},             {SYS_capset, kUpperOnly},
    {SYS_ptrace, kUpperOnly},             {SYS_perf_event_open, kUpperOnly},
};
// And if clocks have an offset, before all others: calls that tell their time or wait for it.
constexpr Trapped kTrappedForClocks[] = {
    {SYS_clock_gettime, kAnyClock},      {SYS_futex, kFutexDeadline},
    {SYS_clock_nanosleep, kAnySleep},    {sys::kSysFutexWaitv, kAbsoluteWait},
    {SYS_timerfd_settime, kAbsolute},    {SYS_timer_settime, kAbsolute},
    {SYS_times, kUpperOnly},
};
constexpr u32 kTrappedCount = sizeof kTrapped / sizeof *kTrapped;
constexpr u32 kTrappedForSignalsCount = sizeof kTrappedForSignals / sizeof *kTrappedForSignals;
constexpr u32 kTrappedForIdsCount = sizeof kTrappedForIds / sizeof *kTrappedForIds;
constexpr u32 kTrappedForClocksCount = sizeof kTrappedForClocks / sizeof *kTrappedForClocks;

// Offsets in struct seccomp_data; little-endian words.
constexpr u32 kNumberAt = 0, kArchAt = 4, kIpHighAt = 12;
constexpr u32 argument_at(u32 index) { return 16 + 8 * index; }

/// A filter under construction; jumps are relative, so blocks are laid out in a fixed order.
struct Filter {
  sock_filter code[1024];
  u16 size = 0;
  Restarted restarted;
  u64 signals;

  void load(u32 offset) { code[size++] = {BPF_LD | BPF_W | BPF_ABS, 0, 0, offset}; }
  void ret(u32 action) { code[size++] = {BPF_RET | BPF_K, 0, 0, action}; }
  void jump(u16 kind, u32 value, u8 yes, u8 no) {
    code[size++] = {u16(BPF_JMP | kind | BPF_K), yes, no, value};
  }
  void skip(u32 count) { code[size++] = {BPF_JMP | BPF_JA, 0, 0, count}; }
  /// Returns `action` when the caller lies in [base, end); falls through otherwise. Expects the
  /// instruction pointer's high word in the accumulator.
  void ret_if_within(u64 base, u64 end, u32 action) {
    jump(BPF_JGE, u32(base >> 32), 0, 2);
    jump(BPF_JGE, u32(end >> 32), 1, 0);
    ret(action);
  }
};

// As threads/clocks.cpp knows them.
constexpr u32 kShifted[] = {sys::kClockMonotonic, sys::kClockMonotonicRaw,
                            sys::kClockMonotonicCoarse, sys::kClockBoottime,
                            sys::kClockBoottimeAlarm};
// By number, of whatever level: process/undone.cpp tells them apart. The last one is no kernel's.
constexpr u32 kUntoldOptions[] = {
    sys::kTcpMd5Sig, sys::kIpXfrmPolicy, sys::kIpv6AddMembership, sys::kIpv6JoinAnycast,
    sys::kTcpUlp, sys::kIpAddMembership, sys::kTcpAoAddKey, sys::kIpAddSourceMembership,
    sys::kMcastJoinGroup, sys::kMcastJoinSourceGroup, sys::kIpv6PktInfo,
    sys::kSoAttachReuseportCbpf, sys::kSoAttachReuseportEbpf, files::kReconnectsOption};
constexpr u8 kShiftedCount = sizeof kShifted / sizeof *kShifted;

constexpr u32 kTrapUpper = SECCOMP_RET_TRAP | u32(Half::kUpper);
constexpr u32 kTrapLower = SECCOMP_RET_TRAP | u32(Half::kLower);

constexpr bool is_mask_rule(Rule rule) { return rule >= kMask; }

/// From the upper half, but not from its vdso page, where call_restart.cpp makes
/// what has trapped.
void emit_from_upper_code(Filter& filter) {
  filter.load(kIpHighAt);
  filter.ret_if_within(kSlots, kUpperEnd, kTrapUpper);
  filter.ret(SECCOMP_RET_ALLOW);
}

/// What takes a signal mask passes without one, and from the vdso page, where it is made
/// (call_restart.cpp).
void emit_mask_rule(Filter& filter, Rule rule) {
  if (rule != kMask) {  // a pointer is given if either half of the argument is not zero
    const u32 index = 3 + u32(rule - kMask3);
    filter.load(argument_at(index));
    filter.jump(BPF_JEQ, 0, 0, 3);
    filter.load(argument_at(index) + 4);
    filter.jump(BPF_JEQ, 0, 0, 1);
    filter.ret(SECCOMP_RET_ALLOW);
  }
  emit_from_upper_code(filter);
}

/// Continues only if argument `index` is one of these.
template <u32 kCount>
void emit_only(Filter& filter, u32 index, const u32 (&values)[kCount]) {
  filter.load(argument_at(index));
  u8 left = kCount;
  for (const u32 value : values) filter.jump(BPF_JEQ, value, left--, 0);
  filter.ret(SECCOMP_RET_ALLOW);
}

/// Continues with threads, and if signals may be held with forks that continue on a copy of their
/// creator's stack.
void emit_clone(Filter& filter) {
  filter.load(argument_at(0));
  if (!filter.signals) {
    filter.jump(BPF_JSET, sys::kCloneThread, 1, 0);
    filter.ret(SECCOMP_RET_ALLOW);
    return;
  }
  filter.jump(BPF_JSET, sys::kCloneThread, 6, 0);
  filter.jump(BPF_JSET, sys::kCloneVm, 4, 0);
  filter.load(argument_at(1));
  filter.jump(BPF_JEQ, 0, 0, 2);
  filter.load(argument_at(1) + 4);
  filter.jump(BPF_JEQ, 0, 1, 0);
  filter.ret(SECCOMP_RET_ALLOW);
}

/// Continues if argument `index` is a signal that may be held.
void emit_signals(Filter& filter, u32 index) {
  filter.load(argument_at(index));
  u8 left = u8(__builtin_popcountll(filter.signals));
  for (u64 rest = filter.signals; rest; rest &= rest - 1)
    filter.jump(BPF_JEQ, u32(__builtin_ctzll(rest)) + 1, left--, 0);
  filter.ret(SECCOMP_RET_ALLOW);
}

void emit_id_fcntl(Filter& filter) {
  filter.load(argument_at(1));
  filter.jump(BPF_JEQ, sys::kDupFd, 1, 0);
  filter.jump(BPF_JEQ, sys::kDupFdCloexec, 0, 5);
  filter.load(kIpHighAt);
  filter.ret_if_within(kLowerBase, kLowerEnd, kTrapLower);
  filter.ret(SECCOMP_RET_ALLOW);
  emit_only(filter, 1, {sys::kGetLock, sys::kSetOwner, sys::kGetOwner, sys::kSetOwnerEx,
                        sys::kGetOwnerEx, sys::kGetDescriptionLock});
  emit_from_upper_code(filter);
}

/// wait4(2) takes a group as a number below -1. Children that have been started again have new ids.
void emit_group_wait(Filter& filter, Rule rule) {
  constexpr u32 kAnyChild = ~u32(0);
  if (filter.restarted.helpers) {
    // Every wait may tell of one.
  } else if (rule == kGroupWaitid) {
    emit_only(filter, 0, {sys::kPPgid});
  } else {
    filter.load(argument_at(0));
    filter.jump(BPF_JEQ, kAnyChild, 1, 0);
    filter.jump(BPF_JSET, 0x80000000, 1, 0);
    filter.ret(SECCOMP_RET_ALLOW);
  }
  emit_from_upper_code(filter);
}

bool is_clock_rule(Rule rule) { return rule >= kOwnedClock && rule <= kAbsolute; }

/// Continues if bit 0 of argument 1 is set: TIMER_ABSTIME and TFD_TIMER_ABSTIME.
void emit_absolute(Filter& filter) {
  filter.load(argument_at(1));
  filter.jump(BPF_JSET, sys::kTimerAbstime, 1, 0);
  filter.ret(SECCOMP_RET_ALLOW);
}

/// FUTEX_WAIT_BITSET, WAIT_REQUEUE_PI and LOCK_PI2 wait until a time of the monotonic clock, if
/// they do not name the other; without a time, for ever.
void emit_futex_deadline(Filter& filter) {
  filter.load(argument_at(1));
  filter.jump(BPF_JSET, FUTEX_CLOCK_REALTIME, 4, 0);
  filter.code[filter.size++] = {BPF_ALU | BPF_AND | BPF_K, 0, 0, u32(FUTEX_CMD_MASK)};
  filter.jump(BPF_JEQ, FUTEX_WAIT_BITSET, 3, 0);
  filter.jump(BPF_JEQ, FUTEX_WAIT_REQUEUE_PI, 2, 0);
  filter.jump(BPF_JEQ, sys::kFutexLockPi2, 1, 0);
  filter.ret(SECCOMP_RET_ALLOW);
}

void emit_clock_rule(Filter& filter, Rule rule) {
  constexpr u32 kHasOwner = 0x80000000;
  switch (rule) {
    case kOwnedClock:
    case kOwnedSleep:
      filter.load(argument_at(0));
      filter.jump(BPF_JSET, kHasOwner, 1, 0);
      filter.ret(SECCOMP_RET_ALLOW);
      break;
    case kAnyClock:
      filter.load(argument_at(0));
      filter.jump(BPF_JSET, kHasOwner, 6, 0);
      for (u8 i = 0; i < kShiftedCount; i++)
        filter.jump(BPF_JEQ, kShifted[i], u8(kShiftedCount - i), 0);
      filter.ret(SECCOMP_RET_ALLOW);
      break;
    case kAnySleep:
      filter.load(argument_at(0));
      filter.jump(BPF_JSET, kHasOwner, 3, 0);
      emit_absolute(filter);
      break;
    case kAbsolute: emit_absolute(filter); break;
    case kFutexDeadline: emit_futex_deadline(filter); break;
    default: break;
  }
  if (rule == kOwnedClock || rule == kAnyClock || rule == kAbsolute) {
    filter.load(kIpHighAt);
    filter.ret_if_within(kUpperBase, kUpperEnd, kTrapUpper);
    filter.ret(SECCOMP_RET_ALLOW);
  } else {
    emit_from_upper_code(filter);
  }
}

/// Continues if the call's arguments are such that the rule is about it.
void emit_condition(Filter& filter, Rule rule) {
  if (rule == kClone) emit_clone(filter);
  if (rule == kSendSecond || rule == kSendThird) emit_signals(filter, rule == kSendSecond ? 1 : 2);
  if (rule == kLowerFcntl) emit_only(filter, 1, {sys::kDupFd, sys::kDupFdCloexec});
  if (rule == kPeer) emit_only(filter, 2, {sys::kSoPeerCred});
  if (rule == kUntold)  // process/undone.cpp: of any level
    emit_only(filter, 2, kUntoldOptions);
  if (rule == kPrctl)
    emit_only(filter, 0, {sys::kPrSetSeccomp, sys::kPrSetSyscallUserDispatch, sys::kPrSchedCore});
  if (rule == kMadvise) emit_only(filter, 2, {sys::kMadvDontFork, sys::kMadvWipeOnFork});
}

void emit_rule(Filter& filter, Rule rule) {
  if (is_mask_rule(rule)) return emit_mask_rule(filter, rule);
  if (rule == kIdFcntl) return emit_id_fcntl(filter);
  if (rule == kGroupWait4 || rule == kGroupWaitid) return emit_group_wait(filter, rule);
  if (is_clock_rule(rule)) return emit_clock_rule(filter, rule);
  emit_condition(filter, rule);
  filter.load(kIpHighAt);
  if (rule == kOpen) filter.ret_if_within(kUpperLoader, kUpperLoaderEnd, kTrapUpper);
  else if (rule != kLowerOnly && rule != kLowerFcntl)
    filter.ret_if_within(kUpperBase, kUpperEnd, kTrapUpper);
  if (rule == kMmap) {
    filter.jump(BPF_JGE, u32(kLowerBase >> 32), 0, 8);
    filter.jump(BPF_JGE, u32(kLowerEnd >> 32), 7, 0);
    filter.load(argument_at(2));
    filter.jump(BPF_JSET, sys::kProtExec, 6, 0);
    filter.load(argument_at(3));
    filter.jump(BPF_JSET, sys::kMapDenyWrite, 4, 0);
    filter.load(argument_at(0) + 4);
    filter.jump(BPF_JGE, 1, 0, 1);  // no address, as most calls have none, or what is saved
    filter.jump(BPF_JGE, u32(kUpperEnd >> 32), 0, 1);
    filter.ret(SECCOMP_RET_ALLOW);
    filter.ret(kTrapLower);
    return;
  }
  if (rule != kUpperOnly && rule != kPeer && rule != kUntold && rule != kPrctl)
    filter.ret_if_within(kLowerBase, kLowerEnd, kTrapLower);
  filter.ret(SECCOMP_RET_ALLOW);
}

u64 block_size(Rule rule, const Filter& filter) {
  static Filter scratch;
  scratch.size = 0;
  scratch.restarted = filter.restarted;
  scratch.signals = filter.signals;
  emit_rule(scratch, rule);
  return scratch.size;
}

void build(Filter& filter) {
  constexpr Rule kRules[] = {kEither, kUpperOnly, kLowerOnly, kOpen, kMmap, kClone, kLowerFcntl,
                             kOwnedClock, kOwnedSleep, kAnyClock, kAnySleep, kFutexDeadline,
                             kAbsoluteWait, kAbsolute, kIdFcntl, kPeer, kGroupWait4,
                             kGroupWaitid, kMadvise, kUntold, kPrctl, kSendSecond, kSendThird,
                             kMask, kMask3, kMask4, kMask5};
  const u32 clocks = filter.restarted.clocks ? kTrappedForClocksCount : 0;
  const u32 ids = filter.restarted.ids ? kTrappedForIdsCount : 0;
  const u32 signals = filter.signals ? kTrappedForSignalsCount : 0;
  const u32 special = clocks + ids + signals, count = special + kTrappedCount;
  filter.load(kArchAt);
  filter.jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0);
  filter.ret(SECCOMP_RET_ALLOW);
  filter.load(kNumberAt);
  // One comparison per number, each jumping to its rule's block behind the final "allow".
  for (u32 i = 0; i < count; i++) {
    const Trapped& trapped = i < clocks         ? kTrappedForClocks[i]
                             : i < clocks + ids ? kTrappedForIds[i - clocks]
                             : i < special      ? kTrappedForSignals[i - clocks - ids]
                                                : kTrapped[i - special];
    u64 distance = 2 * (count - i - 1) + 1;
    for (const Rule rule : kRules) {
      if (rule == trapped.rule) break;
      distance += block_size(rule, filter);
    }
    filter.jump(BPF_JEQ, trapped.number, 0, 1);
    filter.skip(u32(distance));  // a comparison's own jumps reach 255 instructions
  }
  filter.ret(SECCOMP_RET_ALLOW);
  for (const Rule rule : kRules) emit_rule(filter, rule);
}

}  // namespace

void install_filter(const Restarted& restarted, u64 signals) {
  static Filter filter;
  filter.restarted = restarted;
  filter.signals = signals;
  build(filter);
  const sock_fprog program{filter.size, filter.code};
  (void)sys::call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
  const Result<u64> done = sys::call(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                     SECCOMP_FILTER_FLAG_SPEC_ALLOW, sys::arg(&program));
  if (!done)
    die("the kernel refused the system call filter", "seccomp", done.error,
        "the kernel needs CONFIG_SECCOMP_FILTER, and a container must allow seccomp(2)");
}

}  // namespace fermata::launch
