// SPDX-License-Identifier: Apache-2.0
// The cache of findings: one small file per library, found by build-id.
//
// The launcher reads these files without a libc and rewrites code by them, so the format is flat,
// checksummed, and appears under its name only when it is complete (written aside, then renamed).
// Layout: SitesHeader, then `count` file offsets as u64, ascending. For a refused file count is 0
// and the reason follows as NUL-terminated text. All numbers are little-endian.
#pragma once

#include <string>
#include <vector>

#include "sites/finder.h"

namespace fermata::sites {

struct SitesHeader {
  char magic[8];       // "FSITES01"
  u32 version;         // 1
  u32 status;          // 0 ok, 1 refused
  u64 count;           // offsets that follow
  u64 file_bytes;      // size of the library: a second check beside the build-id
  u8 build_id[20];     // or SHA-1 of the file's content when it has no build-id
  u32 build_id_bytes;  // bytes of build_id in use; the name of the cache file is their hex form
  u32 crc32c;          // of the offsets array
  u32 revision;        // kFinderRevision of the rules that made it
};
static_assert(sizeof(SitesHeader) == 64);

/// The identity of a file: its build-id, else the SHA-1 of its content.
std::vector<u8> identity(const ElfFile& file);
std::string hex(const std::vector<u8>& bytes);

/// CRC32C (Castagnoli), reflected, start and end xor of all ones.
u32 crc32c(const void* data, u64 bytes);

/// The bytes of a list.
std::string list_of(const std::vector<u8>& id, u64 file_bytes, const Findings& findings);

/// Writes all of them to a descriptor; false if that fails.
bool write_all(int fd, const std::string& bytes);

/// Opens the directory of a cache, which is made if it is not there. It must be the user's or
/// root's, and nobody else may write to it. Returns an empty string or what is wrong.
std::string open_directory(const std::string& path, int* fd);

/// Writes <hex>.sites there. Returns an empty string or what went wrong.
std::string store(int directory, const std::vector<u8>& id, const std::string& list);

/// Loads a cached result of the current revision for exactly this file. False if there is none.
bool load(int directory, const std::vector<u8>& id, u64 file_bytes, Findings* findings);

}  // namespace fermata::sites
