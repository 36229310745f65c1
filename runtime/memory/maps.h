// SPDX-License-Identifier: Apache-2.0
// The kernel's account of our memory: /proc/self/maps, parsed. Freestanding.
#pragma once

#include "base/types.h"

namespace fermata::memory {

struct Mapping {
  u64 start = 0, end = 0;
  bool read = false, write = false, execute = false, shared = false;
  u64 file_offset = 0;
  u64 inode = 0;         // 0: anonymous
  const char* path = ""; // NUL-terminated, inside the caller's text
};

/// Parses the line at `text` (NUL-terminated; the line's end is overwritten with NUL).
/// Returns the next line, or null if the line is not one of /proc/PID/maps. Format: proc(5).
char* parse_mapping(char* text, Mapping& out);

}  // namespace fermata::memory
