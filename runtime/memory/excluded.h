// SPDX-License-Identifier: Apache-2.0
// Memory that the application does not need again (fermata_exclude): whole pages of it are left out
// of the image. The list lies in upper memory and is its front end's; no thread of the upper half
// runs while it is read here.
#pragma once

#include "base/types.h"
#include "halves/crossing.h"
#include "memory/maps.h"

namespace fermata::memory {

/// The first part of `rest` of which nothing is excluded; an empty one at its end if there is none.
/// Calls again with what follows it give the other parts. Only their bounds mean anything, not
/// their place in a file.
inline Mapping first_included_part(Mapping rest) {
  const Excluded& list = excluded();
  const auto first = [](const ExcludedRegion& region) { return page_ceil(region.address); };
  const auto last = [](const ExcludedRegion& region) {
    return page_floor(region.address + region.bytes);
  };
  for (u64 i = 0; i < list.count && rest.start < rest.end; i++) {
    const ExcludedRegion& region = list.regions[i];
    if (first(region) > rest.start || last(region) <= rest.start) continue;
    rest.start = last(region) < rest.end ? last(region) : rest.end;
    i = u64(-1);  // another one may begin where this one ends, or before
  }
  for (u64 i = 0; i < list.count; i++) {
    const u64 at = first(list.regions[i]);
    if (at > rest.start && at < rest.end && at < last(list.regions[i])) rest.end = at;
  }
  return rest;
}

}  // namespace fermata::memory
