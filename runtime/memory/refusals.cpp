// SPDX-License-Identifier: Apache-2.0
#include "memory/refusals.h"

#include "halves/layout.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

constexpr u32 kCapacity = 256;

/// Things of a kind, each once. When they fill it, those that are gone are forgotten; more of them
/// than it holds are too many to be sure that none is left.
template <typename T>
struct Notes {
  T entries[kCapacity];
  u32 used = 0, lock = 0;
  bool too_many = false;

  template <typename IsThere>
  void add(T entry, IsThere is_there) {
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) arch::pause();
    bool known = false;
    for (u32 i = 0; i < used; i++) known = known || entries[i] == entry;
    if (!known && used == kCapacity) forget(is_there);
    if (!known && used < kCapacity) entries[used++] = entry;
    else too_many = too_many || !known;
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  }
  template <typename IsThere>
  void forget(IsThere is_there) {
    u32 left = 0;
    for (u32 i = 0; i < used; i++)
      if (is_there(entries[i])) entries[left++] = entries[i];
    used = left;
  }
  u32 count() const { return used; }
};

struct Range {
  u64 start, end;
  bool operator==(const Range& other) const {
    return start == other.start && end == other.end;
  }
};
Notes<Range> outside;
Notes<u32> semaphores, queues;
Notes<u64> io_contexts;

u64 status[32];           // room for struct semid64_ds and struct msqid64_ds

bool set_is_there(u32 id) {
  return bool(sys::call(SYS_semctl, id, 0, sys::kIpcStat, sys::arg(status)));
}
bool queue_is_there(u32 id) {
  return bool(sys::call(SYS_msgctl, id, sys::kIpcStat, sys::arg(status)));
}
/// Any page of it: so a range is forgotten only when none is left. What is large is not looked at.
bool is_mapped(const Range& range) {
  constexpr u64 kLarge = 1 << 30;
  u8 residency = 0;
  if (range.end - range.start > kLarge) return true;
  for (u64 at = range.start; at < range.end; at += kPageBytes)
    if (sys::call(SYS_mincore, at, kPageBytes, sys::arg(&residency))) return true;
  return false;
}

Status refuse_number(const char* what, Message& why) {
  why << "more than " << kCapacity << " " << what << ", too many to tell what cannot be saved";
  return failure(sys::kEperm);
}

}  // namespace

void note_placed(u64 start, u64 bytes) {
  if (start + bytes > kUpperEnd) outside.add({start, start + bytes}, is_mapped);
}
void note_semaphores(u32 id) { semaphores.add(id, set_is_there); }
void note_queue(u32 id) { queues.add(id, queue_is_there); }
void note_io_context(u64 address) {
  io_contexts.add(address, [](u64 at) { return is_mapped({at, at + kPageBytes}); });
}

Status refuse_inside(const Mapping& mapping, Message& why) {
  constexpr u64 kAddressShadow = 0x0200'8fff'7000;  // of memory above; it ends in the upper window
  const bool only_executed = mapping.execute && !mapping.read && !mapping.write;
  if (mapping.protection_key && !only_executed) {
    why << "memory with a protection key (pkey_mprotect) cannot be saved, mapped at "
        << Hex{mapping.start};
    return failure(sys::kEperm);
  }
  if (mapping.start != kAddressShadow || mapping.end <= kUpperBase) return success();
  why << "a program built with AddressSanitizer cannot be saved";
  return failure(sys::kEperm);
}

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
  if (outside.too_many) return refuse_number("mappings at fixed addresses", why);
  if (io_contexts.too_many) return refuse_number("contexts of io_setup(2)", why);
  if (semaphores.too_many) return refuse_number("System V semaphore sets", why);
  if (queues.too_many) return refuse_number("System V message queues", why);
  for (u32 i = 0; i < semaphores.count(); i++) {
    if (!set_is_there(semaphores.entries[i])) continue;
    why << "System V semaphores cannot be saved (id " << semaphores.entries[i]
        << "); POSIX semaphores can";
    return failure(sys::kEperm);
  }
  for (u32 i = 0; i < queues.count(); i++) {
    if (!queue_is_there(queues.entries[i])) continue;
    why << "System V message queues cannot be saved (id " << queues.entries[i] << ")";
    return failure(sys::kEperm);
  }
  return success();
}

}  // namespace fermata::memory
