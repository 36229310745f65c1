// SPDX-License-Identifier: Apache-2.0
// The program that the process is to be, though it was the launcher that was executed: its name,
// its path, and what /proc shows of it.
#pragma once

#include "base/types.h"

namespace fermata::launch {

/// Names the process and remembers the program's real path. name: what PR_SET_NAME takes.
void name_process(const char* path, const char* name);
const char* executable();  // real path of the application

/// Addresses: first and end of argv's strings, of the environment's, of the auxiliary vector.
using Shown = u64[6];
/// Has /proc/self/cmdline, environ and auxv show these. Where the kernel does not let programs do
/// so, they show the launcher's.
void show_program(const Shown& shown);
void save_shown(Shown& out);

/// `count` fields of /proc/PID/stat from number `first` on, as proc(5) counts them, behind the
/// name; 0 where there are none.
void read_stat(const char* path, u32 first, u64* out, u32 count);

}  // namespace fermata::launch
