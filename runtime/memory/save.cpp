// SPDX-License-Identifier: Apache-2.0
// A page is saved if it may hold something that a fresh mapping would not: of anonymous memory the
// pages that exist; of a private mapping of a file with a build-id those that were written (the
// rest comes from the file, whose identity the restart checks); of other files all. Zero pages of
// anonymous memory are left out. Pages are read through /proc/self/mem, which reads unreadable
// guard pages and reports a page beyond a file's end as an error where touching it would be SIGBUS.
#include "memory/save.h"

#include "image/build_id.h"
#include "memory/forks.h"
#include "memory/maps.h"

namespace fermata::memory {
namespace {

constexpr u64 kRunPages = 1024;  // 4 MiB: the largest extent
// /proc/PID/pagemap, Documentation/admin-guide/mm/pagemap.rst.
constexpr u64 kPresent = u64(1) << 63, kSwapped = u64(1) << 62, kOfFile = u64(1) << 61;

/// What a page must be to be saved.
enum class Wanted { kAll, kExisting, kWritten };

struct Walk {
  image::Writer& writer;
  int memory_fd, pagemap_fd;
  u8* buffer;  // kRunPages pages
};

bool is_zero(const u8* page) {
  const u64* words = reinterpret_cast<const u64*>(page);
  for (u64 i = 0; i < kPageBytes / 8; i++)
    if (words[i]) return false;
  return true;
}

/// Reads `pages` pages at `address`; those that cannot be read become zero.
void read_pages(const Walk& walk, u64 address, u64 pages) {
  const Result<u64> got =
      sys::pread_full(walk.memory_fd, walk.buffer, pages * kPageBytes, address);
  if (got && got.value == pages * kPageBytes) return;
  for (u64 i = 0; i < pages; i++) {
    u8* page = walk.buffer + i * kPageBytes;
    const Result<u64> one =
        sys::pread_full(walk.memory_fd, page, kPageBytes, address + i * kPageBytes);
    if (!one || one.value != kPageBytes) __builtin_memset(page, 0, kPageBytes);
  }
}

/// Writes the pages of one run; zero pages too where a file would show through instead.
Status save_run(const Walk& walk, u64 address, u64 pages, Wanted wanted) {
  read_pages(walk, address, pages);
  if (wanted == Wanted::kWritten)
    return walk.writer.pages(address, walk.buffer, pages * kPageBytes);
  for (u64 i = 0; i < pages;) {
    if (is_zero(walk.buffer + i * kPageBytes)) {
      i++;
      continue;
    }
    u64 end = i + 1;
    while (end < pages && !is_zero(walk.buffer + end * kPageBytes)) end++;
    const Status put = walk.writer.pages(address + i * kPageBytes, walk.buffer + i * kPageBytes,
                                         (end - i) * kPageBytes);
    if (!put) return put;
    i = end;
  }
  return success();
}

bool is_wanted(Wanted wanted, u64 entry) {
  if (wanted == Wanted::kAll) return true;
  if (wanted == Wanted::kExisting) return entry & (kPresent | kSwapped);
  return (entry & kSwapped) || ((entry & kPresent) && !(entry & kOfFile));
}

Status save_pages(const Walk& walk, const Mapping& mapping, Wanted kind) {
  u64 entries[kRunPages];
  for (u64 at = mapping.start; at < mapping.end; at += kRunPages * kPageBytes) {
    const u64 left = (mapping.end - at) / kPageBytes;
    const u64 pages = left < kRunPages ? left : kRunPages;
    const Result<u64> got =
        sys::pread_full(walk.pagemap_fd, entries, pages * 8, at / kPageBytes * 8);
    const bool known = got && got.value == pages * 8;
    for (u64 i = 0; i < pages;) {
      const auto wanted = [&](u64 page) { return !known || is_wanted(kind, entries[page]); };
      if (!wanted(i)) {
        i++;
        continue;
      }
      u64 end = i + 1;
      while (end < pages && wanted(end)) end++;
      const Status saved = save_run(walk, at + i * kPageBytes, end - i, kind);
      if (!saved) return saved;
      i = end;
    }
  }
  return success();
}

/// The build-id of a private mapping's file, if the file can still be found under its name.
bool find_build_id(const Mapping& mapping, Text<48>& hex) {
  if (mapping.inode == 0 || mapping.shared) return false;
  const Result<u64> fd = sys::open(mapping.path, sys::kReadOnly | sys::kCloseOnExec);
  if (!fd) return false;
  sys::KernelStat info;
  const bool same = sys::fstat(int(fd.value), &info) && info.ino == mapping.inode;
  if (same) image::print_build_id(image::build_id(int(fd.value)), hex);
  (void)sys::close(int(fd.value));
  return hex.size > 0;
}

Status save_region(const Walk& walk, const Mapping& mapping, Message& why) {
  if (mapping.shared && mapping.write) {
    why << "shared memory cannot be saved yet: " << mapping.path << " at " << Hex{mapping.start};
    return failure(sys::kEperm);
  }
  image::ImageRegion* region = walk.writer.regions.add();
  if (!region) {
    why << "more memory regions than an image holds";
    return failure(sys::kEnomem);
  }
  const bool is_file = mapping.inode != 0;
  Text<48> hex;
  const bool by_reference = find_build_id(mapping, hex);
  region->start = mapping.start;
  region->end = mapping.end;
  region->prot = u32((mapping.read ? sys::kProtRead : 0) | (mapping.write ? sys::kProtWrite : 0) |
                     (mapping.execute ? sys::kProtExec : 0));
  region->flags = mapping.attributes | (mapping.shared ? u32(kShared) : 0) |
                  (is_file ? u32(kFileBacked) : 0) | (by_reference ? u32(kByReference) : 0);
  region->file_offset = mapping.file_offset;
  region->path_string = walk.writer.string(mapping.path);
  region->build_id_string = walk.writer.string(hex.data);
  region->first_extent = walk.writer.extents.count;
  const Wanted wanted = by_reference ? Wanted::kWritten
                        : is_file    ? Wanted::kAll
                                     : Wanted::kExisting;
  const Status saved = save_pages(walk, mapping, wanted);
  region->extent_count = walk.writer.extents.count - region->first_extent;
  if (!saved) why << "cannot write the image";
  return saved;
}

}  // namespace

Status save_regions(image::Writer& writer, Message& why) {
  const Result<u64> memory = sys::open("/proc/self/mem", sys::kReadOnly | sys::kCloseOnExec);
  const Result<u64> pagemap = sys::open("/proc/self/pagemap", sys::kReadOnly | sys::kCloseOnExec);
  const Result<u64> buffer =
      sys::mmap(0, kRunPages * kPageBytes, sys::kProtRead | sys::kProtWrite,
                sys::kMapPrivate | sys::kMapAnonymous);
  char* next = read_mappings(Detail::kAttributes);
  if (!memory || !pagemap || !buffer || !next) {
    why << "cannot read /proc/self (smaps, mem or pagemap)";
    return failure(memory.error ? memory.error : sys::kEio);
  }
  const Walk walk{writer, int(memory.value), int(pagemap.value),
                  reinterpret_cast<u8*>(buffer.value)};
  while (next && *next) {
    Mapping mapping;
    next = parse_mapping(next, mapping);
    if (!next || !is_saved(mapping)) continue;
    while (mapping.bytes()) {
      const Mapping part = first_noted_part(mapping);
      const Status saved = save_region(walk, part, why);
      if (!saved) return saved;
      mapping.file_offset += part.bytes();
      mapping.start = part.end;
    }
  }
  (void)sys::close(walk.memory_fd);
  (void)sys::close(walk.pagemap_fd);
  return success();
}

}  // namespace fermata::memory
