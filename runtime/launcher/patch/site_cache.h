// SPDX-License-Identifier: Apache-2.0
// Reading what the sites tool writes: DIR/<hex identity>.sites.
#pragma once

#include "base/types.h"
#include "image/build_id.h"

namespace fermata::launch {

struct SiteFile {
  const u64* offsets = nullptr;  // file offsets of the 0x64 bytes, ascending
  u64 count = 0;
  const char* reason = "";       // why the file was refused
  u64 mapped = 0, mapped_bytes = 0;
};

/// What the cache knows a file by: its build-id, or the SHA-1 of its content if it has none.
/// Of size zero if the file cannot be read. Blocks: a file without a build-id is read as a whole.
image::BuildId site_key(int fd);

/// Maps an open list. Returns 0; ENOENT: by other rules; EPERM: the file was refused (reason says
/// why); EINVAL: the list is damaged; or the errno of mmap.
i32 map_sites(int fd, SiteFile& out);

/// Maps the entry of a directory. Returns as map_sites, and ENOENT: there is none that counts. By
/// the lists code is rewritten: they and their directory must be root's, the user's or those of who
/// installed this launcher, and nobody else may write to them.
i32 open_sites(const image::BuildId& key, const char* directory, SiteFile& out);
void close_sites(const SiteFile& sites);

}  // namespace fermata::launch
