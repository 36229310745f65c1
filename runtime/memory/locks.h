// SPDX-License-Identifier: Apache-2.0
// Memory that the program keeps from being paged out: mlock(2) by range, mlockall(2) for all there
// is and all to come. No /proc file tells of the latter, so the boundary notes it. A lock changes
// no result: where a restart cannot have it (RLIMIT_MEMLOCK), that is said and the program
// continues.
#pragma once

#include "base/result.h"
#include "image/reader.h"

namespace fermata::memory {

/// mlockall(2) for the application. The kernel's own would fill in and count the address space that
/// the front end only reserves (halves/layout.h); so what is there is locked mapping by mapping.
/// MCL_CURRENT alone leaves an earlier MCL_FUTURE in force.
Result<u64> lock_all(u64 flags);
Result<u64> unlock_all();
/// What lock_all is to do with memory to come: MCL_FUTURE and MCL_ONFAULT, or 0.
u32 future_locks();

/// Locks the image's regions again, and memory to come. Says what it cannot lock. Preconditions:
/// the limits are those of the program.
void restore_locks(const image::Reader& reader);
/// Preconditions: nothing will be mapped or advised any more. What cannot be sealed is said.
void restore_seals(const image::Reader& reader);

}  // namespace fermata::memory
