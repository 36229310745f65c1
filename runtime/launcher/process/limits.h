// SPDX-License-Identifier: Apache-2.0
// Resource limits: the process's own, and those of a restart's surroundings.
#pragma once

#include "base/types.h"

namespace fermata::launch {

inline constexpr u32 kLimits = 16;  // RLIMIT_*; of words of bits, those from here on are settings

/// At the start: what this process was given. changed: what it, or a program before it, has set.
void note_limits(u32 changed);
void save_limits(u64 (&out)[32], u32& changed, u32 pid);  // pid 0: of the caller
/// Says so where a limit cannot be as high again. Those that the MPI could not be brought back
/// under (of files, memory, address space) wait for set_late_limits().
void restore_limits(const u64 (&saved)[32], u32 changed);
/// The MPI is there: the limits hold that restore_limits() has left.
void set_late_limits();
/// Waits until they do; at once where none are left. For threads beside the one that sets them.
void await_late_limits();

/// Raises the limits of the size of files, of memory and of address space as far as is allowed.
void lift_limits();
/// Likewise at the start of a restart. Ends the process if no MPI can come up under what is left.
void lift_limits_for_mpi();
/// What this process was started with holds again for those. For a child that execs.
void undo_lift();

u64 soft_descriptors();  // the soft limit now
u64 most_descriptors();  // the hard limit that this process was started with
/// The soft limit that restore_limits() will set, or the first one if that is higher.
u64 soft_descriptors(const u64 (&saved)[32], u32 changed);
/// Raises the soft limit so that descriptors below `count` can be had, until restore_limits().
void allow_descriptors(u64 count);

}  // namespace fermata::launch
