// SPDX-License-Identifier: Apache-2.0
// Programs in memory.
#pragma once

#include "launcher/boundary/guest.h"

namespace fermata::launch {

struct Program {
  u64 entry = 0;         // of the program itself
  u64 base = 0;          // load bias
  u64 start = 0, end = 0;
  u64 headers = 0;       // address of the program headers
  u64 header_count = 0;
  u64 jump = 0;          // where to start: the interpreter's entry, or entry
  u64 interpreter_base = 0;
};
/// Maps an ELF program and its interpreter into a half's window. Ends the process on error.
Program load_program(const char* path, Half half);

}  // namespace fermata::launch
