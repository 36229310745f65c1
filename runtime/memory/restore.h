// SPDX-License-Identifier: Apache-2.0
// Brings saved memory back to its addresses. Runs while there is no upper half and no libc.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/reader.h"

namespace fermata::memory {

/// A failure, as a person needs it told.
struct RestoreError {
  const char* what = "";
  Message where;
  const char* advice = "";
  bool silent = false;  // another rank tells it
};

/// Maps every region of the image and fills it. Preconditions: restore_objects (shared.h). `path`
/// is the image's, for messages. Errors: errno with `error` filled; some regions may have been
/// mapped by then.
Status map_regions(const image::Reader& reader, const char* path, RestoreError& error);

/// Maps and fills the regions that show files by the program's descriptors. Preconditions:
/// map_regions, and those descriptors are there again. Errors: as there.
Status map_followed(const image::Reader& reader, const char* path, RestoreError& error);

/// What to say of a page that the image does not have as it was written.
void tell_damage(const char* path, u64 address, RestoreError& error);

}  // namespace fermata::memory
