// SPDX-License-Identifier: Apache-2.0
// Whose files are whose, and which process this is: forks have descriptors of their own.
#pragma once

#include "base/types.h"

namespace fermata::launch {

/// Decides where the lower half's descriptors begin: at 512, or half of what the process may have
/// (RLIMIT_NOFILE). To be called first.
void place_lower_descriptors();
int first_lower_descriptor();
void begin_lower_descriptors(u64 first);  // on a restart: there, since the image has its own
inline constexpr u64 kDescriptorsTold = 16384;  // all from there on are the application's
bool is_lower_descriptor(int fd);
/// In a fork of the process: closes the lower half's, but not those that may_stay(fd), and not the
/// stream for messages.
void close_lower_descriptors(bool (*may_stay)(int fd));
/// Nothing of the lower half goes into the program that this process becomes.
void close_lower_on_exec();

/// What the rank was started with: kept, or moved out of the application's way.
void note_ambient_descriptors();
/// The rank's own streams 0, 1, 2 as it was started, -1 where there was none: descriptors of ours
/// that stay what they are whatever the application does to its own.
const int* ambient_streams();
/// On a restart: where the file is now that the process was started with under this number, which
/// may be the program's; -1 if there was none.
int inherited_descriptor(int fd);

/// Performs a descriptor-making call of the lower half, moves the result above the application's
/// range and remembers it. Returns what the kernel returned.
u64 trap_lower_descriptor(u64 number, const u64 (&arguments)[6]);
/// Calls of the upper half that are noted or corrected. Return what the kernel returned.
u64 trap_upper_socketpair(const u64 (&arguments)[6]);
u64 trap_upper_watch(const u64 (&arguments)[6]);

/// The process that the launcher began in (or adopted); forks and vforks of it are others.
u32 own_pid();
bool is_own_process();
/// A child that fork(2) made is to be a rank: it takes the place of its parent in our tables.
void adopt_process();

}  // namespace fermata::launch
