// SPDX-License-Identifier: Apache-2.0
// Tags on Core::own_comm, whose messages are counted, drained and kept in images like all others.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

inline constexpr i32 kAnnouncementTag = 0;  // receipts.h
inline constexpr i32 kReceiptTags = 0x3fff;
inline constexpr i32 kGroupTags = 0x4000;  // group_calls.h

/// Receipts have 1 to 16383, each the one behind the last.
inline i32 next_receipt_tag(i32 last) { return last % kReceiptTags + 1; }

/// Meetings have 16384 to 32767, which is what every MPI allows. By what they are for, so that
/// those of two threads with the same rank hardly ever have the same one (SplitMix64's mixing).
inline i32 tag_of_meeting(u64 first, u64 second) {
  u64 hash = first * 0x9e37'79b9'7f4a'7c15 + second;
  hash = (hash ^ hash >> 30) * 0xbf58'476d'1ce4'e5b9;
  hash = (hash ^ hash >> 27) * 0x94d0'49bb'1331'11eb;
  return kReceiptTags + 1 + i32((hash ^ hash >> 31) % kGroupTags);
}
inline bool is_of_meeting(i32 tag) { return tag > kReceiptTags; }

}  // namespace fermata::mpi
