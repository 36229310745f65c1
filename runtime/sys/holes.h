// SPDX-License-Identifier: Apache-2.0
// Whether SEEK_HOLE is to be believed. The kernel's own file systems ask the page cache as well;
// others (FUSE with a write cache, say) know only what has been handed to them. Freestanding.
#pragma once

#include "sys/sys.h"

namespace fermata::sys {

inline constexpr u64 kTmpfs = 0x01021994, kRamfs = 0x858458f6;  // linux/magic.h

/// Makes what SEEK_HOLE says of this file certain: of most file systems it is, the others are
/// handed what is still in the page cache. Errors: of fdatasync(2).
inline Status settle_holes(int fd) {
  constexpr u64 kCertain[] = {kTmpfs,     kRamfs,     0xef53 /* ext2 to 4 */, 0x58465342 /* xfs */,
                              0x9123683e /* btrfs */, 0xf2f52010 /* f2fs */};
  u64 info[15] = {};  // struct statfs
  if (call(SYS_fstatfs, u64(fd), word(info)))
    for (const u64 known : kCertain)
      if (info[0] == known) return success();
  const Result<u64> synced = call(SYS_fdatasync, u64(fd));
  return synced || synced.error == kEinval ? success() : failure(synced.error);
}

}  // namespace fermata::sys
