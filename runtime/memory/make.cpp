// SPDX-License-Identifier: Apache-2.0
#include "memory/make.h"

#include "memory/objects.h"
#include "memory/segments.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

constexpr u64 kExtentMost = 4 << 20, kEnd = ~u64(0);

u8* extent_buffer() {
  static u8* buffer;
  if (buffer) return buffer;
  const Result<u64> map = sys::mmap(0, kExtentMost, sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous);
  return buffer = map ? reinterpret_cast<u8*>(map.value) : nullptr;
}

/// Calls take(offset, bytes of the extent, buffer) for each extent that shows something of bytes
/// [from, to) until one fails.
template <typename Take>
Status each_extent(const image::Reader& reader, const image::ImageObject& object, u64 from, u64 to,
                   RestoreError& error, Take take) {
  u8* const buffer = extent_buffer();
  if (!buffer) return failure(sys::kEnomem);
  for (u64 i = 0; i < object.extent_count; i++) {
    const image::ImageExtent& extent = reader.extents[object.first_extent + i];
    if (extent.address >= to || extent.address + extent.bytes <= from) continue;
    const Status read = read_extent(reader, extent, buffer);
    if (!read) {
      error.what = "the image is damaged";
      error.where << "shared memory " << reader.string(object.path_string);
      error.advice = "check the snapshot with `fermata verify`";
      return read;
    }
    const Status taken = take(extent.address, extent.bytes, buffer);
    if (!taken) return taken;
  }
  return success();
}

/// Makes bytes [from, to) of a file zeros, and holes where its file system has them.
Status clear(int fd, u64 from, u64 to) {
  constexpr int kHow = sys::kFallocFlPunchHole | sys::kFallocFlKeepSize;
  if (sys::call(SYS_fallocate, u64(fd), kHow, from, to - from)) return success();
  u8* const zeros = extent_buffer();
  if (!zeros) return failure(sys::kEnomem);
  __builtin_memset(zeros, 0, kExtentMost);
  for (u64 at = from; at < to; at += kExtentMost) {
    const u64 left = to - at;
    const Status written =
        sys::pwrite_full(fd, zeros, left < kExtentMost ? left : kExtentMost, at);
    if (!written) return written;
  }
  return success();
}

/// The name that a memfd shows: "/memfd:NAME (deleted)".
void memfd_name(const char* path, Text<256>& name) {
  const char* from = text_starts(path, "/memfd:") ? path + 7 : base_name(path);
  u64 length = text_length(from);
  constexpr u64 kSuffix = sizeof " (deleted)" - 1;
  if (length > kSuffix && text_equal(from + length - kSuffix, " (deleted)")) length -= kSuffix;
  for (u64 i = 0; i < length && i < 240; i++) name.put(from[i]);
}

Result<u64> make_nameless(const char* path, u32 mode) {
  Text<256> name;
  memfd_name(path, name);
  const Result<u64> fd =
      sys::call(SYS_memfd_create, sys::arg(name.data), sys::kMfdCloexec | sys::kMfdAllowSealing);
  if (fd) (void)sys::call(SYS_fchmod, fd.value, mode);
  return fd;
}

/// Under a name of its own first: whoever still uses an older file of this name keeps that one.
Result<u64> make_named(const char* path, u32 mode) {
  Path fresh;
  fresh << path << ".fermata-" << sys::getpid();
  const Result<u64> fd = sys::open(
      fresh.data, sys::kReadWrite | sys::kCreate | sys::kExcl | sys::kCloseOnExec, mode);
  if (!fd) return fd;
  (void)sys::call(SYS_fchmod, fd.value, mode);
  const Result<u64> renamed = sys::call(SYS_rename, sys::arg(fresh.data), sys::arg(path));
  if (renamed) return fd;
  (void)sys::call(SYS_unlink, sys::arg(fresh.data));
  (void)sys::close(int(fd.value));
  return renamed;
}

/// A file that is gone is made again if the image has all of it.
Result<u64> open_file(const image::ImageObject& object, const char* path) {
  const int flags = sys::kReadWrite | sys::kCloseOnExec;
  return sys::open(path, object.flags & kWhole ? flags | sys::kCreate : flags, object.mode);
}

/// The segment that the stopped job left behind, or a new one.
Result<u64> make_segment(const image::ImageObject& object, RestoreError& error) {
  SegmentInfo info;
  const u32 before = u32(object.inode);
  if (!(object.flags & kRemoved) && stat_segment(before, info) && info.bytes == object.size &&
      info.key == object.key && info.attach_count == 0)
    return Result<u64>::ok(before);
  const u64 mode = object.mode | sys::kIpcCreat | sys::kIpcExcl;
  const Result<u64> made = object.key ? sys::call(SYS_shmget, object.key, object.size, mode)
                                      : create_segment(0, object.size, mode);
  if (!made && made.error == sys::kEexist) {
    error.what = "the key of the program's System V shared memory is in use";
    error.where << "key " << Hex{object.key};
    error.advice = "end the program that uses it, or remove it: `ipcs -m`, `ipcrm -M KEY`";
  }
  return made && !object.key ? Result<u64>::ok(real_segment(u32(made.value))) : made;
}

Status fill_segment(const image::Reader& reader, const image::ImageObject& object, u32 segment,
                    RestoreError& error) {
  const Result<u64> at = sys::call(SYS_shmat, segment, 0, 0);
  if (!at) return failure(at.error);
  // One that was left behind holds what the job did after the snapshot.
  (void)sys::call(SYS_madvise, at.value, page_ceil(object.size), sys::kMadvRemove);
  const Status filled =
      each_extent(reader, object, 0, kEnd, error, [&](u64 offset, u64 bytes, const u8* from) {
        if (offset + bytes > page_ceil(object.size)) return failure(sys::kEio);
        __builtin_memcpy(reinterpret_cast<void*>(at.value + offset), from, bytes);
        return success();
      });
  (void)sys::call(SYS_shmdt, at.value);
  return filled;
}

void describe(RestoreError& error) {
  error = {};
  error.what = "cannot make the program's shared memory again";
  error.advice = "memory or disk may be short, or the directory missing";
}

}  // namespace

Status make_object(const image::Reader& reader, const image::ImageObject& object, int& fd,
                   u32& segment, RestoreError& error) {
  const char* path = reader.string(object.path_string);
  describe(error);
  fd = -1;
  if (object.kind == kSegment) {
    const Result<u64> made = make_segment(object, error);
    if (!made) return failure(made.error);
    segment = u32(made.value);
    return fill_segment(reader, object, segment, error);
  }
  const Result<u64> made = object.kind == kFile    ? open_file(object, path)
                           : object.kind == kNamed ? make_named(path, object.mode)
                                                   : make_nameless(path, object.mode);
  Status done = made ? success() : failure(made.error);
  if (made) {
    fd = reader.out_of_the_way(int(made.value));
    sys::KernelStat info;
    const bool long_enough =
        object.kind == kFile && sys::fstat(fd, &info) && u64(info.size) >= object.size;
    if (!long_enough) (void)sys::call(SYS_ftruncate, u64(fd), object.size);
  }
  if (!done) error.where << path;
  return done;
}

Status fill_object(const image::Reader& reader, const image::ImageObject& object, int fd, u64 from,
                   u64 to, RestoreError& error) {
  if (to > object.size) to = object.size;
  if (from >= to) return success();
  describe(error);
  // What is there already holds what the job did after the snapshot.
  Status done = object.kind == kFile ? clear(fd, from, to) : success();
  if (done)
    done = each_extent(reader, object, from, to, error,
                       [&](u64 offset, u64 bytes, const u8* saved) {
      const u64 end = offset + bytes < to ? offset + bytes : to;
      const u64 begin = offset > from ? offset : from;
      return sys::pwrite_full(fd, saved + (begin - offset), end - begin, begin);
    });
  if (!done && !error.where.size) error.where << reader.string(object.path_string);
  return done;
}

Status open_if_same(const image::Reader& reader, const image::ImageObject& object, int& fd,
                    RestoreError& error) {
  fd = -1;
  const char* path = reader.string(object.path_string);
  const Result<u64> opened = sys::open_regular(path);
  if (!opened) return success();
  const Result<u64> map = sys::mmap(0, kExtentMost, sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous);
  u8* const there = reinterpret_cast<u8*>(map.value);
  bool same = bool(map);
  Status compared;
  if (map)
    compared = each_extent(reader, object, 0, kEnd, error,
                           [&](u64 offset, u64 bytes, const u8* saved) {
      if (!same) return success();
      __builtin_memset(there, 0, bytes);  // behind the file's end
      const Result<u64> got = sys::pread_full(int(opened.value), there, bytes, offset);
      same = got && __builtin_memcmp(there, saved, bytes) == 0;
      return success();
    });
  if (map) (void)sys::munmap(map.value, kExtentMost);
  if (compared && same) fd = reader.out_of_the_way(int(opened.value));
  else (void)sys::close(int(opened.value));
  return compared;
}

Status open_unchanged(const image::Reader& reader, const image::ImageObject& object, int& fd,
                      RestoreError& error) {
  const Status compared = open_if_same(reader, object, fd, error);
  if (!compared || fd >= 0) return compared;
  const char* path = reader.string(object.path_string);
  sys::KernelStat info;
  Message text;
  const bool is_there = bool(sys::stat(path, &info));
  text << "fermata: " << path << " is " << (is_there ? "not what it was" : "no longer there")
       << "; the program continues with the contents it had mapped\n";
  sys::say(text.data);
  const Result<u64> copy = make_nameless(path, object.mode);
  if (!copy) return failure(copy.error);
  fd = reader.out_of_the_way(int(copy.value));
  (void)sys::call(SYS_ftruncate, u64(fd), object.size);
  return fill_object(reader, object, fd, 0, kEnd, error);
}

void settle_object(const image::ImageObject& object, int fd, u32 segment) {
  if (object.kind == kSegment && (object.flags & kRemoved))
    (void)sys::call(SYS_shmctl, segment, sys::kIpcRmid, 0);
  if (object.kind == kNameless && object.seals) (void)sys::fcntl(fd, sys::kAddSeals, object.seals);
}

}  // namespace fermata::memory
