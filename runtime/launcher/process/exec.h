// SPDX-License-Identifier: Apache-2.0
// A program that becomes another one.
#pragma once

#include "launcher/boundary/guest.h"

namespace fermata::launch {

/// At the start: what this process was given, or has chosen as another program.
void note_given();

/// `mask`: the signals that the caller blocks. Returns if the kernel did not execute the program:
/// -errno.
u64 trap_upper_exec(u64 number, const u64 (&arguments)[6], u64 mask);

}  // namespace fermata::launch
