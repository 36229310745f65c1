// SPDX-License-Identifier: Apache-2.0
// Whose memory is where: the calls that map, as the boundary performs them. They return what the
// kernel would have returned, -errno and all.
#pragma once

#include "launcher/boundary/guest.h"

namespace fermata::launch {

u64 trap_mmap(Half half, u64 address, u64 bytes, u64 prot, u64 flags, u64 fd, u64 offset);
u64 trap_mremap(u64 old_address, u64 old_bytes, u64 new_bytes, u64 flags, u64 new_address);
u64 trap_brk(u64 address);
u64 trap_shmget(u64 key, u64 bytes, u64 flags);
u64 trap_semget(u64 key, u64 count, u64 flags);
u64 trap_msgget(u64 key, u64 flags);
u64 trap_mlockall(u64 flags);
u64 trap_munlockall();
u64 trap_io_setup(u64 events, u64 context);
u64 trap_shmctl(u64 id, u64 command, u64 argument);
u64 trap_shmat(u64 id, u64 address, u64 flags);
u64 trap_fork_advice(u64 address, u64 bytes, u64 advice);

u64 place_lower(u64 bytes);  // a free range for code in the lower window

// LauncherCalls of the same names: pages that both halves see. Return 0 or -errno.
i32 share(u64 from, u64 to, u64 bytes);
i32 share_again(u64 from, u64 to, u64 bytes);
void unshare(u64 at, u64 bytes);
bool renew_lower(u64 at, u64 bytes, bool shared);

/// Saved, so that a restarted program continues to be placed where it left off.
struct Placement {
  u64 brk_start, brk_end, mmap_cursor;
};
extern Placement placement;

}  // namespace fermata::launch
