// SPDX-License-Identifier: Apache-2.0
// Bytes that lie in no file a restart could open: what is in a pipe, in a socket, in a file that
// has been deleted. In the image they are extents whose address is an offset in the contents.
#pragma once

#include "base/result.h"
#include "image/reader.h"
#include "image/writer.h"

namespace fermata::files {

inline constexpr u64 kContentBytes = 4 << 20;  // the most that save_bytes and load_bytes take

/// A buffer of kContentBytes. There is one: its user is done before the next begins.
u8* content_buffer();

/// Adds the first `bytes` bytes of content_buffer() to the image as `file`'s contents.
Status save_bytes(image::Writer& writer, image::ImageFile& file, u64 bytes);
/// Reads contents kept by save_bytes back into content_buffer().
Status load_bytes(const image::Reader& reader, const image::ImageFile& file);

/// Few bytes, as text of the image's strings. save_text: the first `bytes`, at most kTextBytes, of
/// `from`; returns where. load_text: false if that is not what save_text() has kept.
inline constexpr u64 kTextBytes = 1 << 16;
u32 save_text(image::Writer& writer, const u8* from, u64 bytes);
bool load_text(const image::Reader& reader, u32 at, u8* to, u64 bytes);

/// Adds what the file open as `fd` holds; holes stay holes.
Status save_file(image::Writer& writer, image::ImageFile& file, int fd);
/// Writes contents kept by save_file to `fd` and gives it its size.
Status load_file(const image::Reader& reader, const image::ImageFile& file, int fd);

}  // namespace fermata::files
