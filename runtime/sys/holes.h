// SPDX-License-Identifier: Apache-2.0
// Whether SEEK_HOLE is to be believed. The kernel's own file systems ask the page cache as well;
// others (FUSE with a write cache, say) know only what has been handed to them. Freestanding.
#pragma once

#include "sys/sys.h"

namespace fermata::sys {

/// Makes what SEEK_HOLE says of this file certain: of most file systems it is, the others are
/// handed what is still in the page cache. Errors: of fdatasync(2).
inline Status settle_holes(int fd) {
  constexpr u64 kCertain[] = {kTmpfsMagic,    kRamfsMagic,     kExt4SuperMagic,
                              kXfsSuperMagic, kBtrfsSuperMagic, kF2fsSuperMagic};
  u64 info[15] = {};  // struct statfs
  if (call(SYS_fstatfs, u64(fd), arg(info)))
    for (const u64 known : kCertain)
      if (info[0] == known) return success();
  const Result<u64> synced = call(SYS_fdatasync, u64(fd));
  return synced || synced.error == kEinval ? success() : failure(synced.error);
}

}  // namespace fermata::sys
