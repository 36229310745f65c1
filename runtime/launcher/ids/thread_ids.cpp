// SPDX-License-Identifier: Apache-2.0
// The ids of the application's threads.
//
// A libc keeps a thread's id in its thread block and writes it into every mutex that must know its
// owner; the program keeps ids where it likes. The kernel gives every thread a new id at a restart,
// so the application keeps its old ones, and the system calls that take or return ids trap and are
// translated (process_ids.cpp). Until the first restart both are the same and nothing traps.
//
// A thread made after a restart has the kernel's id if no other thread goes by it, else one that no
// kernel gives.
//
// Invariant: the id of a thread is final before the thread runs and before its creator knows it.
//            Not checked: whoever has seen another one does not tell.
#include "launcher/ids/thread_ids.h"

#include <asm/unistd.h>
#include <linux/futex.h>

#include "launcher/ids/process_ids.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kFirstAlias = 1 << 29;  // above what a kernel gives, below FUTEX_TID_MASK
constexpr u32 kMostPids = 1 << 22;    // PID_MAX_LIMIT
static_assert(kFirstAlias > kMostPids && kFirstAlias + kThreadCapacity < FUTEX_TID_MASK);
bool differ;

}  // namespace

void adopt_saved_ids() { differ = true; }

bool ids_differ() { return differ; }

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

u32 known_thread(u32 tid) {
  const Thread* const thread = is_forked_child() ? nullptr : find_thread(tid);
  return thread ? thread->id : tid;
}

/// A clock of processor time has its thread or process in its number (pthread_getcpuclockid).
u64 kernel_clock(u64 clock) {
  constexpr u32 kKind = 7, kOfThread = 4;
  const u32 id = ~u32(i32(clock) >> 3);
  if (i32(clock) >= 0 || id == 0) return clock;
  const u32 kernels = clock & kOfThread ? kernel_task(id) : kernel_process(id);
  return u64(u32(~kernels << 3 | (u32(clock) & kKind)));
}

}  // namespace fermata::launch
