// SPDX-License-Identifier: Apache-2.0
#include "files/contents.h"

#include "sys/holes.h"

namespace fermata::files {

u8* content_buffer() {
  alignas(kPageBytes) static u8 buffer[kContentBytes];
  return buffer;
}

Status save_bytes(image::Writer& writer, image::ImageFile& file, u64 bytes) {
  u8* buffer = content_buffer();
  file.size = bytes;
  file.first_extent = writer.extents.count;
  if (bytes == 0) return success();
  __builtin_memset(buffer + bytes, 0, page_ceil(bytes) - bytes);
  const Status put = writer.pages(0, buffer, page_ceil(bytes));
  file.extent_count = writer.extents.count - file.first_extent;
  return put;
}

Status load_bytes(const image::Reader& reader, const image::ImageFile& file) {
  if (file.size == 0) return success();
  const image::ImageExtent& extent = reader.extents[file.first_extent];
  if (file.extent_count != 1 || file.size > extent.bytes) return failure(sys::kEio);
  return read_extent(reader, extent, content_buffer());
}

u32 save_text(image::Writer& writer, const u8* from, u64 bytes) {
  static char text[2 * kTextBytes + 1];
  for (u64 i = 0; i < bytes; i++) {
    text[2 * i] = "0123456789abcdef"[from[i] >> 4];
    text[2 * i + 1] = "0123456789abcdef"[from[i] & 15];
  }
  text[2 * bytes] = 0;
  return writer.string(text);
}

bool load_text(const image::Reader& reader, u32 at, u8* to, u64 bytes) {
  const char* const text = reader.string(at);
  if (bytes > kTextBytes || text_length(text) != 2 * bytes) return false;
  const auto digit = [](char c) { return u8(c <= '9' ? c - '0' : c - 'a' + 10); };
  for (u64 i = 0; i < bytes; i++) to[i] = u8(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  return true;
}

Status save_file(image::Writer& writer, image::ImageFile& file, int fd) {
  file.first_extent = writer.extents.count;
  const Status settled = sys::settle_holes(fd);
  if (!settled) return settled;
  for (u64 at = 0; at < file.size;) {
    const Result<u64> data = sys::lseek(fd, i64(at), sys::kSeekData);
    if (!data && data.error == sys::kEnxio) break;  // only a hole is left
    if (!data) return failure(data.error);
    const Result<u64> hole = sys::lseek(fd, i64(data.value), sys::kSeekHole);
    const u64 end = hole ? page_ceil(hole.value) : page_ceil(file.size);
    for (at = page_floor(data.value); at < end;) {
      const u64 wanted = end - at < kContentBytes ? end - at : kContentBytes;
      const Result<u64> got = sys::pread_full(fd, content_buffer(), wanted, at);
      if (!got) return failure(got.error);
      __builtin_memset(content_buffer() + got.value, 0, wanted - got.value);
      const Status put = writer.pages(at, content_buffer(), wanted);
      if (!put) return put;
      at += wanted;
    }
  }
  file.extent_count = writer.extents.count - file.first_extent;
  return success();
}

Status load_file(const image::Reader& reader, const image::ImageFile& file, int fd) {
  for (u64 i = 0; i < file.extent_count; i++) {
    const image::ImageExtent& extent = reader.extents[file.first_extent + i];
    Status done = read_extent(reader, extent, content_buffer());
    if (done) done = sys::pwrite_full(fd, content_buffer(), extent.bytes, extent.address);
    if (!done) return done;
  }
  const Result<u64> sized = sys::call(SYS_ftruncate, u64(fd), file.size);
  return sized ? success() : failure(sized.error);
}

}  // namespace fermata::files
