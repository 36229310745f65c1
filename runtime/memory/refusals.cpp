// SPDX-License-Identifier: Apache-2.0
#include "memory/refusals.h"

#include "halves/layout.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

/// The newest things of a kind. More than it holds are forgotten, the oldest first.
template <typename T>
struct Notes {
  static constexpr u32 kCapacity = 256;
  T entries[kCapacity];
  u32 next = 0;

  void add(T entry) {
    const u32 place = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
    entries[place % kCapacity] = entry;
  }
  u32 count() const { return next < kCapacity ? next : kCapacity; }
};

struct Range {
  u64 start, end;
};
Notes<Range> outside;
Notes<u32> semaphores, queues;
Notes<u64> io_contexts;

}  // namespace

void note_placed(u64 start, u64 bytes) {
  if (start + bytes > kUpperEnd) outside.add({start, start + bytes});
}
void note_semaphores(u32 id) { semaphores.add(id); }
void note_queue(u32 id) { queues.add(id); }
void note_io_context(u64 address) { io_contexts.add(address); }

Status refuse_outside(const Mapping& mapping, Message& why) {
  for (u32 i = 0; i < io_contexts.count(); i++) {
    if (io_contexts.entries[i] != mapping.start || !text_starts(mapping.path, "/[aio]")) continue;
    why << "asynchronous input and output by io_setup(2) (libaio) cannot be saved: the context "
        << Hex{mapping.start} << "; end it before the checkpoint";
    return failure(sys::kEperm);
  }
  for (u32 i = 0; i < outside.count(); i++) {
    const Range& range = outside.entries[i];
    if (mapping.start >= range.end || mapping.end <= range.start) continue;
    why << "the program mapped memory at " << Hex{mapping.start}
        << ", outside the addresses that can be saved (below " << Hex{kUpperEnd} << ")";
    return failure(sys::kEperm);
  }
  return success();
}

Status refuse_ipc(Message& why) {
  constexpr u64 kStat = 2;  // IPC_STAT
  u64 status[32];           // room for struct semid64_ds and struct msqid64_ds
  for (u32 i = 0; i < semaphores.count(); i++) {
    if (!sys::call(SYS_semctl, semaphores.entries[i], 0, kStat, sys::word(status))) continue;
    why << "System V semaphores cannot be saved (id " << semaphores.entries[i]
        << "); POSIX semaphores can";
    return failure(sys::kEperm);
  }
  for (u32 i = 0; i < queues.count(); i++) {
    if (!sys::call(SYS_msgctl, queues.entries[i], kStat, sys::word(status))) continue;
    why << "System V message queues cannot be saved (id " << queues.entries[i] << ")";
    return failure(sys::kEperm);
  }
  return success();
}

}  // namespace fermata::memory
