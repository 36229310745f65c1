// SPDX-License-Identifier: Apache-2.0
// Makes one object of an image again, on this rank. Used by shared.cpp.
#pragma once

#include "base/result.h"
#include "image/reader.h"
#include "memory/restore.h"

namespace fermata::memory {

/// Makes the object; a System V segment is filled, too. `fd`: a descriptor of it, or -1; `segment`:
/// the kernel's id of a segment. Errors: errno, `error` filled.
Status make_object(const image::Reader& reader, const image::ImageObject& object, int& fd,
                   u32& segment, RestoreError& error);

/// Makes bytes [from, to) of an object what they were, zeros included. Errors: errno, `error`
/// filled.
Status fill_object(const image::Reader& reader, const image::ImageObject& object, int fd, u64 from,
                   u64 to, RestoreError& error);

/// A descriptor of the object's file if it is there and holds what the image tells of, else -1.
/// Errors: EIO = the image is damaged, `error` filled.
Status open_if_same(const image::Reader& reader, const image::ImageObject& object, int& fd,
                    RestoreError& error);

/// Opens a file that no rank could write. If it no longer holds what it held, says so and gives a
/// private copy of what it held instead.
Status open_unchanged(const image::Reader& reader, const image::ImageObject& object, int& fd,
                      RestoreError& error);

/// What would have been in the way while others were opening it: seals, removal.
void settle_object(const image::ImageObject& object, int fd, u32 segment);

}  // namespace fermata::memory
