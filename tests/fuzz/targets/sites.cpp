// SPDX-License-Identifier: Apache-2.0
// ELF files as the finder of FS prefixes reads them: headers, sections, symbols, .eh_frame, code.
#include "bytes.h"
#include "sites/finder.h"

using namespace fermata;

namespace {

/// What was found is a list of FS prefixes, ascending and inside the file.
void check_findings(const sites::ElfFile& file, const sites::Findings& found) {
  u64 before = 0;
  for (const u64 offset : found.offsets) {
    REQUIRE(offset > before && offset < file.bytes());
    REQUIRE(file.data()[offset] == 0x64);
    before = offset;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  static fuzz::MemoryFile memory;
  memory.hold(data, size);
  sites::ElfFile file;
  if (!file.open(memory.path()).empty()) return 0;
  const sites::Findings found = sites::find_sites(file);
  if (found.refused.empty()) check_findings(file, found);
  return 0;
}
