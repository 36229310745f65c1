// SPDX-License-Identifier: Apache-2.0
// mincore(2) says of shared memory which pages exist, but not of those that are in swap. Reading
// all pages instead would make those that do not exist, so it has to be known whether any is there.
#pragma once

#include "base/types.h"
#include "memory/maps.h"

namespace fermata::memory {

/// Notes how much the machine had swapped out. Call before the mappings are read.
void note_swapping();

/// True if pages of `mapping` may have been in swap when mincore was asked, just before.
bool may_hide_pages(const Mapping& mapping);

/// Pages swapped out since the machine was started, as /proc/vmstat, `text`, tells: the sum of all
/// counters of that kind. ~0 if it tells of none.
u64 count_swapped_out(const char* text);

}  // namespace fermata::memory
