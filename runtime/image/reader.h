// SPDX-License-Identifier: Apache-2.0
// Opens one rank's image and checks it. Freestanding. The file itself is never mapped: a snapshot
// may be removed while the program that was restored from it runs.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/format.gen.h"
#include "image/seal.h"
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
  const ImageTag* tags = nullptr;  // one for each extent of a sealed image
  u64 string_bytes = 0;
  u64 held_bytes = 0;  // of memory, from the header on
  SealKeys keys{};      // of a sealed image
  u64 moved_bytes = 0;  // of memory, from the strings on, if paths have moved (image/moved.h)

  /// Duplicates a descriptor, close-on-exec, under a number that none of the image has: above them
  /// all, or between them if the limit leaves no room there. Errors: EMFILE = nowhere.
  Result<u64> duplicate_clear(int descriptor) const;
  /// Moves a descriptor to such a number; returns where it is now. Without room it stays.
  int out_of_the_way(int descriptor) const;
  /// The string at `offset` of the string table; "" if the offset is out of range.
  const char* string(u32 offset) const { return offset < string_bytes ? strings + offset : ""; }
};

/// Whether this program reads that version of the format.
bool is_known(u32 version);

/// Reads the header and the tables and checks magic, version, sizes, bounds, checksums and seal.
/// The payload is checked extent by extent as it is read. Errors: errno with `why` filled.
/// Refused are, by the descriptor, images that are no files, or not this user's own, and by the
/// seal those not made with the key in this file; without one ("") those that are sealed.
Status open_image(const char* path, const char* key, Reader& out, Message& why);

inline constexpr u32 kWritableForOthers = 022, kReadableForOthers = 077;
/// Whether a file is this user's, and nobody else may write to it.
bool is_own(const sys::KernelStat& info);

/// Opens a file of this user's that is believed: an image is a program that will run as this user,
/// and nobody else may have a key. It has none of these permissions. Does not wait, as open(2) of a
/// pipe would. `what` it is: for the message. Returns the descriptor.
Result<u64> open_own(const char* path, u32 forbidden, const char* what, Message& why);

/// Gives their memory back; the descriptor stays open.
void free_tables(Reader& reader);

/// Reads one of the reader's extents to `place`, checks its CRC32C and tag, and decrypts it.
/// Errors: errno; EIO = checksum or short file, EPERM = the tag does not fit.
Status read_extent(const Reader& reader, const ImageExtent& extent, void* place);

}  // namespace fermata::image
