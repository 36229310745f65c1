// SPDX-License-Identifier: Apache-2.0
#include "memory/follow.h"

#include "sys/sys.h"

namespace fermata::memory {
namespace {

constexpr u64 kChunk = 4 << 20;  // the largest extent

/// Two chunks: what the image has, and what the file has.
u8* chunks() {
  static u8* buffer;
  if (buffer) return buffer;
  const Result<u64> map = sys::mmap(0, 2 * kChunk, sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous);
  return buffer = map ? reinterpret_cast<u8*>(map.value) : nullptr;
}

/// Makes pages of a region that differ from `saved` what they were. What the file has not is zero.
bool settle_pages(const image::ImageRegion& region, int fd, u64 address, u64 bytes,
                  const u8* saved) {
  u8* const there = chunks() + kChunk;
  const Result<u64> got =
      sys::pread_full(fd, there, bytes, region.file_offset + (address - region.start));
  const u64 known = got ? got.value : 0;
  __builtin_memset(there + known, 0, bytes - known);
  bool same = true;
  for (u64 at = 0; at < page_ceil(known); at += kPageBytes) {
    if (__builtin_memcmp(there + at, saved + at, kPageBytes) == 0) continue;
    __builtin_memcpy(reinterpret_cast<void*>(address + at), saved + at, kPageBytes);
    same = false;
  }
  return same;
}

/// The end of the region's part from `at` on that no extent covers; `at` itself if one does.
u64 gap_end(const image::Reader& reader, const image::ImageRegion& region, u64 at, u64& next) {
  u64 end = region.end;
  next = at;
  for (u64 i = 0; i < region.extent_count; i++) {
    const image::ImageExtent& extent = reader.extents[region.first_extent + i];
    const u64 extent_end = extent.address + extent.bytes;
    if (extent.address <= at && extent_end > at) return next = extent_end, at;
    if (extent.address > at && extent.address < end) end = extent.address;
  }
  return next = end;
}

}  // namespace

u32 descriptor_of(const image::Writer& writer, const Mapping& mapping) {
  for (u64 i = 0; i < writer.files.count; i++) {
    const image::ImageFile& file = writer.files.entries[i];
    if (file.inode != mapping.inode || !text_equal(writer.text(file.path_string), mapping.path))
      continue;
    if (file.kind == image::FileKind::kDeleted) return u32(i) + 1;
    if (file.kind == image::FileKind::kRegular && (file.flags & 3) != sys::kReadOnly)
      return u32(i) + 1;
  }
  return 0;
}

Status fill_followed(const image::Reader& reader, const image::ImageRegion& region, int fd,
                     bool own, const char* path, RestoreError& error) {
  u8* const saved = chunks();
  if (!saved) return failure(sys::kEnomem);
  bool same = true;
  for (u64 i = 0; i < region.extent_count; i++) {
    const image::ImageExtent& extent = reader.extents[region.first_extent + i];
    const bool written = !(extent.flags & kNeverWritten);
    if (!written && own) continue;
    void* const place = written ? reinterpret_cast<void*>(extent.address) : saved;
    const Status read = read_extent(reader, extent, place);
    if (!read) return tell_damage(path, extent.address, error), read;
    if (!written) same = settle_pages(region, fd, extent.address, extent.bytes, saved) && same;
  }
  __builtin_memset(saved, 0, kChunk);
  for (u64 at = region.start, next = 0; at < region.end && !own; at = next) {
    const u64 end = gap_end(reader, region, at, next);
    for (; at < end; at += kChunk)
      same = settle_pages(region, fd, at, end - at < kChunk ? end - at : kChunk, saved) && same;
  }
  if (same) return success();
  Message text;
  text << "fermata: " << reader.string(region.path_string)
       << " is not what it was; the program continues with the contents it had mapped\n";
  sys::say(text.data);
  return success();
}

bool is_long_enough(const image::Reader& reader, const image::ImageRegion& region, int fd) {
  sys::KernelStat info;
  if (!sys::fstat(fd, &info) || (info.mode & sys::kTypeMask) != sys::kTypeRegular) return false;
  const u64 size = page_ceil(u64(info.size));
  for (u64 i = 0; i < region.extent_count; i++) {
    const image::ImageExtent& extent = reader.extents[region.first_extent + i];
    if (extent.address + extent.bytes - region.start + region.file_offset > size) return false;
  }
  return true;
}

}  // namespace fermata::memory
