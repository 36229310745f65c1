// SPDX-License-Identifier: Apache-2.0
// The kernel's account of our memory: /proc/self/maps and smaps, parsed. Freestanding.
#pragma once

#include "base/types.h"
#include "memory/attributes.h"

namespace fermata::memory {

struct Mapping {
  u64 start = 0, end = 0;
  bool read = false, write = false, execute = false, shared = false;
  u64 file_offset = 0;
  u64 device = 0;         // as stat(2) gives it
  u64 inode = 0;          // 0: anonymous
  const char* path = "";  // NUL-terminated, inside the caller's text
  u32 attributes = 0;     // attributes.h; 0 where the text has no VmFlags (maps)
  u64 swapped_kib = 0;    // in swap when the text was read; 0 where it does not tell (maps)
  u64 protection_key = 0; // likewise; that of memory which may only be executed is the kernel's own
  bool alias = false;     // aliases.h; not of the kernel's text

  u64 bytes() const { return end - start; }
};

/// Parses the mapping at `text` (NUL-terminated; the ends of its lines are overwritten with NUL).
/// Returns where the next one begins, or null if this is none of /proc/PID/maps or smaps. Format:
/// proc(5).
char* parse_mapping(char* text, Mapping& out);

enum class Detail { kPlain, kAttributes };

/// Reads all of /proc/self/maps (or smaps, which costs a walk over the page tables) into fresh
/// memory. Returns null if it cannot be read.
char* read_mappings(Detail detail);
/// Gives the memory of read_mappings back.
void free_mappings(char* text);

/// True for memory that the image holds: of the upper window, or of a program linked below it.
bool is_saved(const Mapping& mapping);

}  // namespace fermata::memory
