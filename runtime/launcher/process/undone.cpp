// SPDX-License-Identifier: Apache-2.0
// What a program has done to itself that a restart would undo, and that nothing here does again:
// rights it has given away for good (landlock, filters of its own), rooms it has entered (another
// namespace, another root), ways in which the kernel treats it. Natively it would continue like
// that, so a checkpoint is refused by name.
//
// What the kernel tells of is compared with what the process was started with, by each thread when
// it stops. What it does not tell of traps (boundary.cpp) and is noted while the process lives.
#include "launcher/process/undone.h"

#include <asm/unistd.h>

#include "files/registry.h"
#include "launcher/boundary/filter.h"
#include "launcher/boundary/guest.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr const char* kAskedNames[] = {
    "its personality(2)", "its secure bits (PR_SET_SECUREBITS)", "the use of rdtsc (PR_SET_TSC)",
    "what memory errors do (PR_MCE_KILL)", "a mitigation (PR_SET_SPECULATION_CTRL)",
    "a mitigation (PR_SET_SPECULATION_CTRL)", "a mitigation (PR_SET_SPECULATION_CTRL)",
    "its part in input and output (PR_SET_IO_FLUSHER)", "what may be executed (PR_SET_MDWE)",
    "the use of cpuid (ARCH_SET_CPUID)", "to SCHED_DEADLINE",
    "bounds of its utilization (SCHED_FLAG_UTIL_CLAMP)"};
constexpr u32 kAsked = sizeof kAskedNames / sizeof *kAskedNames;

i64 first[kAsked];

/// Each as the calling thread has it. Most are a process's, and cost as little as a thread's.
void ask(i64 (&out)[kAsked]) {
  constexpr u64 kOnlyAsk = 0xffffffff;
  const auto value = [](const Result<u64>& got) { return got ? i64(got.value) : i64(-1); };
  i32 tsc = 0;
  out[0] = value(sys::call(SYS_personality, kOnlyAsk));
  out[1] = value(sys::call(SYS_prctl, sys::kPrGetSecureBits));
  out[2] = sys::call(SYS_prctl, sys::kPrGetTsc, sys::arg(&tsc)) ? tsc : -1;
  out[3] = value(sys::call(SYS_prctl, sys::kPrMceKillGet, 0, 0, 0, 0));
  for (u32 kind = 0; kind < 3; kind++)
    out[4 + kind] = value(sys::call(SYS_prctl, sys::kPrGetSpeculationCtrl, kind, 0, 0, 0));
  out[7] = value(sys::call(SYS_prctl, sys::kPrGetIoFlusher, 0, 0, 0, 0));
  out[8] = value(sys::call(SYS_prctl, sys::kPrGetMdwe, 0, 0, 0, 0));
  out[9] = value(sys::call(SYS_arch_prctl, sys::kArchGetCpuid));
  struct {  // struct sched_attr
    u32 size, policy;
    u64 flags;
    i32 nice;
    u32 priority;
    u64 runtime, deadline, period;
    i32 least, most;
  } scheduling{};
  (void)sys::call(SYS_sched_getattr, 0, sys::arg(&scheduling), sizeof scheduling, 0);
  out[10] = scheduling.policy == sys::kSchedDeadline;
  out[11] = i64(scheduling.least) << 32 | i64(scheduling.most);
}

// Noted: a text for each kind, null if there is none.
const char* noted[8];

u64 note(u64 result, const char* what) {
  if (i64(result) < 0 || is_forked_child()) return result;
  for (const char*& entry : noted) {
    if (entry && !text_equal(entry, what)) continue;
    entry = what;
    break;
  }
  return result;
}

struct UntoldOption {
  u32 level, name;
  const char* what;
};
constexpr const char *kMembership = "a membership in a multicast group",
                     *kKeys = "keys (TCP_MD5SIG, TCP_AO)", *kPolicy = "a policy of IPsec",
                     *kProgram = "a program of SO_ATTACH_REUSEPORT";
// What getsockopt(2) does not tell of a socket. boundary/filter.cpp has them all.
constexpr UntoldOption kUntold[] = {
    {sys::kIpProtoIp, sys::kIpAddMembership, kMembership},
    {sys::kIpProtoIp, sys::kIpAddSourceMembership, kMembership},
    {sys::kIpProtoIp, sys::kMcastJoinGroup, kMembership},
    {sys::kIpProtoIp, sys::kMcastJoinSourceGroup, kMembership},
    {sys::kIpProtoIpv6, sys::kIpv6AddMembership, kMembership},
    {sys::kIpProtoIpv6, sys::kMcastJoinGroup, kMembership},
    {sys::kIpProtoIpv6, sys::kMcastJoinSourceGroup, kMembership},
    {sys::kIpProtoIpv6, sys::kIpv6JoinAnycast, "an anycast address"},
    {sys::kIpProtoIpv6, sys::kIpv6PktInfo, "addresses to send from (IPV6_PKTINFO)"},
    {sys::kIpProtoTcp, sys::kTcpMd5Sig, kKeys},
    {sys::kIpProtoTcp, sys::kTcpAoAddKey, kKeys},
    {sys::kIpProtoTcp, sys::kTcpUlp, "another protocol on it (TCP_ULP)"},
    {sys::kIpProtoIp, sys::kIpXfrmPolicy, kPolicy},
    {sys::kIpProtoIpv6, sys::kIpv6XfrmPolicy, kPolicy},
    {sys::kSolSocket, sys::kSoAttachReuseportCbpf, kProgram},
    {sys::kSolSocket, sys::kSoAttachReuseportEbpf, kProgram},
};

/// Null for all other options.
const char* untold_option(u64 level, u64 name) {
  for (const UntoldOption& option : kUntold)
    if (level == option.level && name == option.name) return option.what;
  return nullptr;
}

u64 note_reconnects(int fd) {
  sys::KernelStat info;
  if (is_forked_child()) return u64(-i64(sys::kEnoprotoopt));
  if (const Result<u64> found = sys::fstat(fd, &info); !found) return u64(-i64(found.error));
  if ((info.mode & sys::kTypeMask) != sys::kTypeSocket) return u64(-i64(sys::kEnotsock));
  files::note_reconnects(info.ino);
  return 0;
}

u64 set_option(const u64 (&a)[6]) {
  if (u32(a[1]) == sys::kSolSocket && u32(a[2]) == files::kReconnectsOption)
    return note_reconnects(int(a[0]));
  const u64 result = pass_on(SYS_setsockopt, a);
  const char* const what = result == 0 ? untold_option(u32(a[1]), u32(a[2])) : nullptr;
  sys::KernelStat info;
  if (what && !is_forked_child() && sys::fstat(int(a[0]), &info))
    files::note_untold(info.ino, what);
  return result;
}

u64 control_process(const u64 (&a)[6]) {
  // With a filter of its own, and where ours has trapped, nothing tells whose SIGSYS it is.
  if (a[0] == sys::kPrSetSyscallUserDispatch) return u64(-i64(sys::kEinval));
  const u64 result = pass_on(SYS_prctl, a);
  if (a[0] == sys::kPrSetSeccomp) return note(result, "a filter of system calls (seccomp)");
  if (a[0] == sys::kPrSchedCore && a[1] != 0) return note(result, "a cookie of core scheduling");
  return result;
}

/// keyctl(2): a session keyring of its own. add_key(2): a key that only its threads have.
u64 use_keys(u64 number, const u64 (&a)[6]) {
  const u64 result = pass_on(number, a);
  const i32 ring = i32(a[number == SYS_add_key ? 4 : 3]);
  const bool joins = u32(a[0]) == sys::kKeyctlJoinSessionKeyring;
  const bool own = number == SYS_keyctl ? joins : ring == -1 || ring == -2;
  return own ? note(result, "keys of its own (keyrings(7))") : result;
}

}  // namespace

void note_first_state() { ask(first); }

void note_changes(Thread& thread) {
  i64 now[kAsked];
  ask(now);
  thread.changes = 0;
  for (u32 i = 0; i < kAsked; i++)
    if (now[i] != first[i]) thread.changes |= 1u << i;
}

Status refuse_undone(Message& why) {
  for (const Thread& thread : threads) {
    if (!stands(thread) || !thread.changes) continue;
    const u32 which = u32(__builtin_ctz(thread.changes));
    why << "thread " << thread.id << " has changed " << kAskedNames[which < kAsked ? which : 0]
        << ": a restart would undo that";
    return failure(sys::kEperm);
  }
  for (const char* what : noted) {
    if (!what) continue;
    why << "the program has " << what << ": a restart would undo that";
    return failure(sys::kEperm);
  }
  return success();
}

u64 trap_undone_call(u64 number, const u64 (&a)[6]) {
  switch (number) {
    case SYS_setsockopt: return set_option(a);
    case SYS_prctl: return control_process(a);
    case SYS_add_key:
    case SYS_request_key:
    case SYS_keyctl: return use_keys(number, a);
    case SYS_chroot:
    case SYS_pivot_root: return note(pass_on(number, a), "another root directory");
    case SYS_setns: return note(pass_on(number, a), "entered other namespaces");
    case SYS_ioperm:
    case SYS_iopl: return note(pass_on(number, a), "access to ports of devices");
    case sys::kSysLandlockRestrictSelf:
      return note(pass_on(number, a), "given up rights (landlock)");
    case SYS_unshare: {
      const u64 result = pass_on(number, a);
      const bool matters = a[0] & ~sys::kCloneSysvSem;
      return matters ? note(result, "entered other namespaces (unshare)") : result;
    }
    default: {  // seccomp(2): SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER
      const u64 result = pass_on(number, a);
      return a[0] <= 1 ? note(result, "a filter of system calls (seccomp)") : result;
    }
  }
}

}  // namespace fermata::launch
