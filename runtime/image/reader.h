// SPDX-License-Identifier: Apache-2.0
// Opens one rank's image and checks it. Freestanding. The file itself is never mapped: a snapshot
// may be removed while the program that was restored from it runs.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/format.gen.h"
#include "sys/sys.h"

namespace fermata::image {

struct Reader {
  int fd = -1;
  const ImageHeader* header = nullptr;
  const ImageRegion* regions = nullptr;
  const ImageObject* objects = nullptr;
  const ImageExtent* extents = nullptr;
  const ImageThread* threads = nullptr;
  const ImageFile* files = nullptr;
  const ImageMember* members = nullptr;
  const ImageAction* actions = nullptr;
  const ImageSignal* signals = nullptr;
  const ImageTimer* timers = nullptr;
  const char* strings = nullptr;
  u64 string_bytes = 0;
  u64 held_bytes = 0;  // of memory, from the header on
  u64 moved_bytes = 0;  // of memory, from the strings on, if paths have moved (image/moved.h)

  /// Duplicates a descriptor, close-on-exec, under a number that none of the image has: above them
  /// all, or between them if the limit leaves no room there. Errors: EMFILE = nowhere.
  Result<u64> duplicate_clear(int descriptor) const;
  /// Moves a descriptor to such a number; returns where it is now. Without room it stays.
  int out_of_the_way(int descriptor) const;
  /// The string at `offset` of the string table; "" if the offset is out of range.
  const char* string(u32 offset) const { return offset < string_bytes ? strings + offset : ""; }
};

/// Reads the header and the tables and checks magic, version, sizes, bounds and checksums. The
/// payload is checked extent by extent as it is read. Errors: errno with `why` filled.
/// Refused are, by the descriptor, images that are no files, or not this user's own.
Status open_image(const char* path, Reader& out, Message& why);

/// Whether a file is this user's, and nobody else may write to it.
bool is_own(const sys::KernelStat& info);

/// Opens an image, which is a program that will run as this user: a regular file, this user's, that
/// nobody else may write to. Does not wait, as open(2) of a pipe would. Returns the descriptor.
Result<u64> open_own(const char* path, Message& why);

/// Gives their memory back; the descriptor stays open.
void free_tables(Reader& reader);

/// Reads one extent to `place` and checks its CRC32C. Errors: errno; EIO = checksum or short file.
Status read_extent(const Reader& reader, const ImageExtent& extent, void* place);

}  // namespace fermata::image
