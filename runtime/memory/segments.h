// SPDX-License-Identifier: Apache-2.0
// System V shared memory by the ids that the application knows. The kernel chooses an id, so after
// a restart a segment has another one; the application and its other ranks continue with the old,
// and the boundary translates. Until the first restart the two are equal.
//
// Invariant: no id that the kernel gives is the known id of another segment; create_segment sees to
//            that, so an id without an entry means itself, on every rank. Not checked: it is
//            what create_segment does.
#pragma once

#include "base/result.h"
#include "base/types.h"

namespace fermata::memory {

struct SegmentInfo {  // struct shmid64_ds of asm-generic/shmbuf.h
  u32 key, uid, gid, cuid, cgid, mode;
  u64 sequence, unused[2];
  u64 bytes, attached_s, detached_s, changed_s;
  u32 creator_pid, last_pid;
  u64 attach_count, more[2];
};
static_assert(sizeof(SegmentInfo) == 112);

/// The kernel's id for one the application knows.
u32 real_segment(u32 known);
/// The application's id for one of the kernel's.
u32 known_segment(u32 real);
/// Enters a segment that this rank has made, found or attached, and must save from now on: its
/// checkpoints wait for those of others (objects.h). The ids are equal if it did so just now.
void note_segment(u32 known, u32 real);
/// Enters one that is others' to save until this rank attaches it, too.
void learn_segment(u32 known, u32 real);

/// Calls take(pair) for each segment that has been entered.
template <typename Take>
void each_segment(Take take);

Result<u64> stat_segment(u32 real, SegmentInfo& out);

/// What the boundary does for shmget(2) and shmctl(2).
Result<u64> create_segment(u64 key, u64 bytes, u64 flags);
Result<u64> control_segment(u64 id, u64 command, u64 argument);

// ---------------------------------------------------------------------------------------------
struct SegmentPair {
  u32 known, real;
  bool is_own;  // entered by note_segment
};
inline constexpr u32 kSegmentCapacity = 4096;  // as many as Linux has by default
extern SegmentPair segments[kSegmentCapacity];
extern u32 segment_count;

template <typename Take>
void each_segment(Take take) {
  const u32 count = __atomic_load_n(&segment_count, __ATOMIC_ACQUIRE);
  for (u32 i = 0; i < count && i < kSegmentCapacity; i++) take(segments[i]);
}

}  // namespace fermata::memory
