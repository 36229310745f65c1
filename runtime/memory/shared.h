// SPDX-License-Identifier: Apache-2.0
// Shared memory at a restart. All ranks say what they shared (device and inode of then tell what
// was one); of those that could write an object, the one that read it last makes it again and fills
// it, since then nobody had written to it when the job continued; the others get it from that rank
// through /proc/PID/fd, so no name has to be invented, nor removed after a crash.
#pragma once

#include "base/result.h"
#include "image/reader.h"
#include "memory/restore.h"

namespace fermata::memory {

/// How the ranks talk while there is no upper half: everyone gives `bytes` bytes, everyone gets
/// those of all ranks, by rank. Blocks until all have come. Returns 0, or an MPI error.
using Gather = int (*)(const void* mine, u64 bytes, void* all);

struct World {
  Gather gather;
  u32 rank, size;
};

/// Makes the image's objects again or gets them. Every rank of a restart calls it. Errors: errno,
/// `error` filled; of the ranks that find the same, one has it told (RestoreError::silent).
Status restore_objects(const image::Reader& reader, const World& world, RestoreError& error);

/// Maps a shared region onto its object. Preconditions: restore_objects.
Result<u64> map_shared(const image::Reader& reader, const image::ImageRegion& region);
/// A descriptor of the object that a region shows, -1 if there is none. Preconditions: as there.
int region_descriptor(const image::ImageRegion& region);

/// A descriptor of the object without a name that had this inode number on this device (0: on any);
/// -1 if none had. Good until finish_objects.
int object_descriptor(u64 inode, u64 device);

/// Waits until every rank has mapped and opened what it needs, then seals and removes what was
/// sealed and removed, and closes the descriptors.
Status finish_objects(const image::Reader& reader, const World& world);

}  // namespace fermata::memory
