// SPDX-License-Identifier: Apache-2.0
// The ids of the application's threads.
//
// A libc keeps a thread's id in its thread block and writes it into every mutex that must know its
// owner; the program keeps ids where it likes. The kernel gives every thread a new id at a restart,
// so the application keeps its old ones and the system calls that take or return ids are trapped
// and translated. Until the first restart both are the same and nothing is trapped.
//
// A thread made after a restart has the kernel's id if no other thread goes by it, else one that no
// kernel gives. The process id is the new process's: pthread_cancel's handler compares it with the
// sender's, which the kernel fills in.
//
// Invariant: the id of a thread is final before the thread runs and before its creator knows it.
#include <asm/unistd.h>

#include "launcher/launcher.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kFirstAlias = 1 << 29;  // above what a kernel gives, below FUTEX_TID_MASK
bool differ;

/// Index of the argument that names a thread.
u32 thread_argument(u64 number) {
  switch (number) {
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo:
    case SYS_getpriority:
    case SYS_setpriority:
    case SYS_ioprio_get:
    case SYS_ioprio_set: return 1;
    default: return 0;
  }
}

/// Whether it does, and not a process, a group or a user.
bool names_thread(u64 number, const u64 (&a)[6]) {
  constexpr u64 kPrioProcess = 0, kIoprioWhoProcess = 1;
  switch (number) {
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo: return u32(a[0]) == threads[0].tid;
    case SYS_getpriority:
    case SYS_setpriority: return u32(a[0]) == kPrioProcess;
    case SYS_ioprio_get:
    case SYS_ioprio_set: return u32(a[0]) == kIoprioWhoProcess;
    default: return true;
  }
}

}  // namespace

void adopt_saved_ids() { differ = true; }

bool ids_differ() { return differ; }

bool is_forked_child() { return sys::getpid() != threads[0].tid; }

Thread* find_thread_by_id(u32 id) {
  if (id == 0) return nullptr;
  for (Thread& thread : threads)
    if (thread.state >= ThreadState::kLive && thread.id == id) return &thread;
  return nullptr;
}

u32 choose_id(const Thread& thread, u32 tid) {
  if (!find_thread_by_id(tid)) return tid;
  u32 alias = kFirstAlias + u32(&thread - threads);
  while (find_thread_by_id(alias)) alias += kThreadCapacity;  // kept from an earlier restart
  return alias;
}

u32 kernel_tid(u32 id) {
  const Thread* const thread = is_forked_child() ? nullptr : find_thread_by_id(id);
  return thread ? thread->tid : id;
}

/// A clock of one thread's processor time has the thread in its number (pthread_getcpuclockid).
u64 kernel_clock(u64 clock) {
  constexpr u32 kKind = 7, kOfThread = 4;
  const u32 id = ~u32(i32(clock) >> 3);
  if (i32(clock) >= 0 || !(clock & kOfThread) || id == 0) return clock;
  return u64(u32(~kernel_tid(id) << 3 | (u32(clock) & kKind)));
}

u64 trap_thread_call(u64 number, const u64 (&arguments)[6]) {
  if (number == SYS_gettid) {
    const u32 tid = sys::gettid();
    const Thread* const thread = is_forked_child() ? nullptr : find_thread(tid);
    return thread ? thread->id : tid;
  }
  u64 a[6];
  __builtin_memcpy(a, arguments, sizeof a);
  if (number == SYS_clock_gettime) a[0] = kernel_clock(a[0]);
  else if (u64& id = a[thread_argument(number)]; names_thread(number, a)) id = kernel_tid(u32(id));
  return pass_on(number, a);
}

/// /proc/self/task/ID/..., of which the kernel knows nothing where ID is not its own.
u64 trap_upper_open(u64 number, const u64 (&arguments)[6]) {
  constexpr const char* kTasks = "/proc/self/task/";
  const u64 result = trap_loader_open(number, arguments);
  // ENOENT also says that the path can be read.
  if (!ids_differ() || i64(result) != -sys::kEnoent) return result;
  u64 a[6];
  __builtin_memcpy(a, arguments, sizeof a);
  u64& path = a[number == SYS_openat];
  const char* rest = reinterpret_cast<const char*>(path);
  if (!text_starts(rest, kTasks)) return result;
  rest += text_length(kTasks);
  const u32 id = u32(parse_decimal(rest));
  Path translated;
  translated << kTasks << kernel_tid(id) << rest;
  path = sys::word(translated.data);
  return pass_on(number, a);
}

}  // namespace fermata::launch
