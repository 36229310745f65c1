// SPDX-License-Identifier: Apache-2.0
// Memory of the lower half that the upper half sees as well: windows of MPI_Win_allocate whose
// pages are the real MPI's, mapped a second time in the upper window. Such a mapping is not the
// application's shared memory: an image holds its contents as private memory, and the front end
// has the new lower half's pages in its place after a restart.
#pragma once

#include "base/types.h"
#include "memory/maps.h"

namespace fermata::memory {

/// From now on [start, start + bytes) is such memory. False: there are too many already.
bool note_alias(u64 start, u64 bytes);
/// The mapping that was noted at `start` ends.
void forget_alias(u64 start);
bool is_alias(const Mapping& mapping);

}  // namespace fermata::memory
