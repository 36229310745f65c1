// SPDX-License-Identifier: Apache-2.0
// Private mappings of files that are not referred to by build-id. A page that was never written
// shows what the file holds at each moment, and so it does after a restart: it is mapped from the
// file again, be that an object, what a descriptor of the program's leads to, or a file under its
// name. Of a file that the program could not write the image decides: pages that differ from it get
// what they held.
#pragma once

#include "image/reader.h"
#include "image/writer.h"
#include "memory/maps.h"
#include "memory/restore.h"

namespace fermata::memory {

inline constexpr u32 kNeverWritten = 1;  // ImageExtent::flags

/// 1 + the index of an open descriptor through which the program knows the mapped file best: one by
/// which it can write to it, or any if the file has no name. 0: there is none.
u32 descriptor_of(const image::Writer& writer, const Mapping& mapping);

/// Fills a region that has just been mapped from `fd`, with what the image says of it. `own`: the
/// file is the program's, so what was never written stays as the file shows it.
Status fill_followed(const image::Reader& reader, const image::ImageRegion& region, int fd,
                     bool own, const char* path, RestoreError& error);

/// Whether the file is long enough for every page that the image has of the region; behind its end
/// there is no memory.
bool is_long_enough(const image::Reader& reader, const image::ImageRegion& region, int fd);

}  // namespace fermata::memory
