// SPDX-License-Identifier: Apache-2.0
// Code without a frame among constants: which of the possible prefixes of a gap are prefixes?
#pragma once

#include <string>
#include <vector>

#include "base/types.h"
#include "sites/decode.h"

namespace fermata::sites {

/// A piece of a code section that no FDE bounds and that does not decode from end to end.
struct Gap {
  const u8* bytes;
  u64 begin, end;               // addresses
  std::vector<u64> candidates;  // every byte that may be a prefix or touch the FS base; addresses
};

/// How the file's code and tables name addresses inside the gap.
struct GapEntries {
  std::vector<u64> code;    // function symbols and targets of direct branches: code for certain
  std::vector<u64> either;  // addresses that are taken or that a relocation holds: code or data
};

struct GapVerdict {
  std::string refused;      // empty, or why nobody can tell
  std::vector<u64> sites;   // addresses of FS prefixes, ascending
};

GapVerdict judge_gap(const Decoder& decoder, const Gap& gap, const GapEntries& entries);

}  // namespace fermata::sites
