// SPDX-License-Identifier: Apache-2.0
// Reading the cache that the sites tool writes: DIR/<hex build-id>.sites.
#pragma once

#include "base/types.h"

namespace fermata::launch {

struct SiteKey {
  u8 bytes[20];
  u32 size;  // 0: the file has no build-id
};

struct SiteFile {
  const u64* offsets = nullptr;  // file offsets of the 0x64 bytes, ascending
  u64 count = 0;
  const char* reason = "";       // why the file was refused
  u64 mapped = 0, mapped_bytes = 0;
};

/// The build-id of an ELF file, or a zero-size key.
SiteKey site_key(int fd);
/// Maps the cache entry. Returns 0; ENOENT: not cached; EPERM: the file was refused (reason says
/// why); EINVAL: the entry is damaged; or the errno of open and mmap.
i32 open_sites(const SiteKey& key, const char* directory, SiteFile& out);
void close_sites(const SiteFile& sites);

}  // namespace fermata::launch
