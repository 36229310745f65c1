// SPDX-License-Identifier: Apache-2.0
// Finds every FS segment prefix of a library, or refuses the library.
#pragma once

#include <string>
#include <vector>

#include "base/sites_revision.h"
#include "sites/elf_file.h"

namespace fermata::sites {

struct Findings {
  std::vector<u64> offsets;  // file offsets of the 0x64 bytes, ascending
  std::string refused;       // empty, or why the file must not be rewritten (what, where)
  u64 functions = 0;         // ranges that .eh_frame bounds
  u64 gaps = 0;              // ranges of code that it does not
  u64 decoded = 0;           // bytes that had to be decoded
};

Findings find_sites(const ElfFile& file);

}  // namespace fermata::sites
