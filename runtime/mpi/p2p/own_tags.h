// SPDX-License-Identifier: Apache-2.0
// Tags on P2pState::own_comm, whose messages are counted, drained and kept in images like all
// others.
#pragma once

#include "base/hash.h"

namespace fermata::mpi {

inline constexpr i32 kAnnouncementTag = 0;  // receipts.h
inline constexpr i32 kReceiptTags = 0x3ffe;
/// Of no message: progress.h looks for it. Images of the first releases may hold receipts with it.
inline constexpr i32 kNobodysTag = 0x3fff;
inline constexpr i32 kFirstGroupTag = 0x4000, kGroupTags = 0x4000;  // group_calls.h
inline constexpr i32 kLeastTagUb = 32767;                           // that an MPI may have
static_assert(kAnnouncementTag < 1 && kReceiptTags < kNobodysTag && kNobodysTag < kFirstGroupTag);
static_assert(kFirstGroupTag + kGroupTags - 1 <= kLeastTagUb);

/// Receipts have 1 to 16382, each the one behind the last.
inline i32 next_receipt_tag(i32 last) { return last % kReceiptTags + 1; }

/// Barriers of groups have 16384 to 32767, which is what every MPI allows. By what they are for, so
/// that those of two threads with the same rank hardly ever have the same one.
inline i32 tag_of_barrier(u64 first, u64 second) {
  return kFirstGroupTag + i32(hash_word(hash_word(kHashStart, first), second) % kGroupTags);
}
inline bool is_announcement(i32 tag) { return tag < kFirstGroupTag; }

// Partitioned messages (partitioned.h) have what is above, up to the MPI_TAG_UB that we promise.
inline constexpr i32 kIntroductionTag = 0x8000, kLastChannel = 0x7ffff;
static_assert(kIntroductionTag >= kFirstGroupTag + kGroupTags);
inline i32 next_channel(i32 last) {
  return last > kIntroductionTag && last < kLastChannel ? last + 1 : kIntroductionTag + 1;
}

}  // namespace fermata::mpi
