// SPDX-License-Identifier: Apache-2.0
// Which address ranges are functions, according to .eh_frame.
#pragma once

#include <string>
#include <vector>

#include "sites/elf_file.h"

namespace fermata::sites {

struct FunctionRange {
  u64 begin, end;
};

/// Reads every FDE of the file's .eh_frame into `out`, ascending by begin, without duplicates.
/// Returns an empty string, or what is wrong with the table.
std::string read_frames(const ElfFile& file, std::vector<FunctionRange>* out);

}  // namespace fermata::sites
