// SPDX-License-Identifier: Apache-2.0
// A program's first stack.
#pragma once

#include "launcher/load/elf.h"
#include "launcher/load/program.h"

namespace fermata::launch {

/// Builds a program's initial stack below `top` (System V ABI 3.4.1). Returns the stack pointer.
u64 build_stack(u64 top, const Program& program, const char* path, int argc, char** argv,
                char** envp, const char* const* extra_env, int extra_count, u64 vdso, Shown& shown);

}  // namespace fermata::launch
