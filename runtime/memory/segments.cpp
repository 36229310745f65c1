// SPDX-License-Identifier: Apache-2.0
#include "memory/segments.h"

#include "memory/objects.h"
#include "sys/sys.h"

namespace fermata::memory {

SegmentPair segments[kSegmentCapacity];
u32 segment_count;

namespace {

constexpr int kTries = 64;
u32 entering;  // spin lock: notes are rare and short

bool is_known_as_other(u32 real) {
  bool found = false;
  each_segment([&](const SegmentPair& pair) {
    found = found || (pair.known == real && pair.real != real);
  });
  return found;
}

/// Entries of segments that are gone make room.
void forget_removed() {
  u32 kept = 0;
  for (u32 i = 0; i < segment_count; i++) {
    SegmentInfo info;
    if (stat_segment(segments[i].real, info)) segments[kept++] = segments[i];
  }
  segment_count = kept;
}

void enter_segment(u32 known, u32 real, bool is_own) {
  while (__atomic_exchange_n(&entering, 1, __ATOMIC_ACQUIRE)) arch::pause();
  bool found = false;
  for (u32 i = 0; i < segment_count && !found; i++) {
    if (segments[i].known != known) continue;
    segments[i].real = real;
    segments[i].is_own = segments[i].is_own || is_own;
    found = true;
  }
  if (!found && segment_count == kSegmentCapacity) forget_removed();
  if (!found && segment_count < kSegmentCapacity) {
    segments[segment_count] = {known, real, is_own};
    __atomic_add_fetch(&segment_count, 1, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&entering, 0, __ATOMIC_RELEASE);
}

}  // namespace

u32 real_segment(u32 known) {
  u32 result = known;
  each_segment([&](const SegmentPair& pair) { if (pair.known == known) result = pair.real; });
  return result;
}

u32 known_segment(u32 real) {
  u32 result = real;
  each_segment([&](const SegmentPair& pair) { if (pair.real == real) result = pair.known; });
  return result;
}

void note_segment(u32 known, u32 real) {
  note_shared_memory();
  enter_segment(known, real, true);
}

void learn_segment(u32 known, u32 real) { enter_segment(known, real, false); }

Result<u64> stat_segment(u32 real, SegmentInfo& out) {
  return sys::call(SYS_shmctl, real, sys::kIpcStat, sys::arg(&out));
}

Result<u64> create_segment(u64 key, u64 bytes, u64 flags) {
  u32 unusable[kTries];  // kept until the end, or the kernel might give them again
  int tries = 0;
  Result<u64> made = sys::call(SYS_shmget, key, bytes, flags);
  while (made && key == sys::kIpcPrivate && is_known_as_other(u32(made.value)) && tries < kTries) {
    unusable[tries++] = u32(made.value);
    made = sys::call(SYS_shmget, key, bytes, flags);
  }
  while (tries) (void)sys::call(SYS_shmctl, unusable[--tries], sys::kIpcRmid, 0);
  if (!made) return made;
  const u32 known = known_segment(u32(made.value));
  note_segment(known, u32(made.value));
  return Result<u64>::ok(known);
}

Result<u64> control_segment(u64 id, u64 command, u64 argument) {
  const bool by_id =
      command <= sys::kIpcStat || command == sys::kShmLock || command == sys::kShmUnlock;
  return sys::call(SYS_shmctl, by_id ? real_segment(u32(id)) : id, command, argument);
}

}  // namespace fermata::memory
