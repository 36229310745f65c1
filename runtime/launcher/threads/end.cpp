// SPDX-License-Identifier: Apache-2.0
// The end of an upper thread. The kernel would mark the robust mutexes that the thread still holds,
// by its own thread id, and then clear the word that pthread_join waits for, at a time when nobody
// can say whether the thread still counts. We do both, before the thread's slot is free, so an
// image never has a thread gone whose end nobody would hear of.
//
// The main thread stays, asleep: it is the one that parks for a checkpoint, and the kernel keeps
// the leader of a process until the last thread ends as well.
#include "launcher/threads/end.h"

#include <asm/unistd.h>

#include "arch/x86_64/context.h"
#include "launcher/boundary/call_restart.h"
#include "launcher/ids/thread.h"
#include "launcher/threads/tls_pool.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

struct RobustHead {  // struct robust_list_head of linux/futex.h
  u64 first;
  i64 offset;   // from an entry to its futex
  u64 pending;  // an entry about to be put in or taken out
};
constexpr u64 kPi = 1;  // in an entry's address: the futex is one with priority inheritance

/// The owner of this futex is gone. What the kernel's handle_futex_death() does.
void give_up_futex(u64 entry, const RobustHead& head, u32 id) {
  u32* const futex = reinterpret_cast<u32*>((entry & ~kPi) + u64(head.offset));
  u32 seen = __atomic_load_n(futex, __ATOMIC_RELAXED);
  const bool handed_over = seen == 0 && entry == head.pending;
  while ((seen & FUTEX_TID_MASK) == id) {
    const u32 left = (seen & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
    if (__atomic_compare_exchange_n(futex, &seen, left, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      break;
  }
  if (!(entry & kPi) && (handed_over || seen & FUTEX_WAITERS))
    (void)sys::call(SYS_futex, sys::arg(futex), FUTEX_WAKE, 1);
}

void give_up_robust_futexes(u32 id) {
  u64 address = 0, bytes = 0;
  (void)sys::call(SYS_get_robust_list, 0, sys::arg(&address), sys::arg(&bytes));
  if (!address) return;
  const RobustHead& head = *reinterpret_cast<const RobustHead*>(address);
  u64 entry = head.first;
  for (u32 i = 0; i < ROBUST_LIST_LIMIT && (entry & ~kPi) != address; i++) {
    const u64 next = *reinterpret_cast<const u64*>(entry & ~kPi);
    if (entry != head.pending) give_up_futex(entry, head, id);
    entry = next;
  }
  if (head.pending) give_up_futex(head.pending, head, id);
  (void)sys::call(SYS_set_robust_list, 0, bytes);
}

}  // namespace

u64 trap_exit(u64 code, UserContext* context) {
  Thread* const thread = find_thread(sys::gettid());
  if (!thread)
    for (;;) (void)sys::call(SYS_exit, code);
  release_tls(*thread);
  give_up_robust_futexes(thread->id);
  const u64 everything = ~u64(0);
  (void)sys::sigprocmask(sys::kSigSetMask, &everything, nullptr);
  (void)sys::call(SYS_set_tid_address, 0);
  if (thread != &threads[0]) arch::fermata_end_thread(thread->clear_tid, &thread->state, code);
  if (u32* const joined = reinterpret_cast<u32*>(thread->clear_tid)) {
    __atomic_store_n(joined, 0, __ATOMIC_RELEASE);
    (void)sys::call(SYS_futex, sys::arg(joined), FUTEX_WAKE, 1);
  }
  thread->clear_tid = 0;
  context->mask = ~kOurSignals;
  // libc ends a thread in a loop: should the pause end, here again.
  return restart_as_pause(context);
}

}  // namespace fermata::launch
