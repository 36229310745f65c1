// SPDX-License-Identifier: Apache-2.0
// The list of memory that the application does not need again (fermata_exclude). The image's writer
// reads it (memory/excluded.h); a thread that changes it is inside MPI as far as a checkpoint is
// concerned.
#pragma once

#include "interface/fermata.h"
#include "mpi/threads.h"

namespace fermata::mpi {

inline int exclude(void* address, size_t bytes) {
  const u64 at = reinterpret_cast<u64>(address);
  if (bytes == 0 || at + bytes < at) return FERMATA_MISUSE;
  const LowerScope scope;
  Excluded& list = excluded();
  if (list.count == Excluded::kCapacity) return FERMATA_MISUSE;
  list.regions[list.count++] = {at, bytes};
  return 0;
}

inline int include(void* address, size_t bytes) {
  const LowerScope scope;
  Excluded& list = excluded();
  for (u64 i = list.count; i-- > 0;) {
    ExcludedRegion& region = list.regions[i];
    if (region.address != reinterpret_cast<u64>(address) || region.bytes != bytes) continue;
    region = list.regions[--list.count];
    return 0;
  }
  return FERMATA_MISUSE;
}

}  // namespace fermata::mpi
