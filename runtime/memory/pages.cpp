// SPDX-License-Identifier: Apache-2.0
#include "memory/pages.h"

#include "memory/huge.h"
#include "memory/swap.h"
#include "sys/holes.h"

namespace fermata::memory {
namespace {

// /proc/PID/pagemap, Documentation/admin-guide/mm/pagemap.rst.

bool is_zero(const u8* page) {
  const u64* words = reinterpret_cast<const u64*>(page);
  for (u64 i = 0; i < kPageBytes / 8; i++)
    if (words[i]) return false;
  return true;
}

/// Which pages of a chunk to save.
struct Chunk {
  u64 entries[Pages::kRunPages];
  u8 cached[Pages::kRunPages];
  bool known = false;

  void look(int pagemap_fd, const Mapping& mapping, u64 at, u64 pages, Wanted wanted) {
    if (wanted == Wanted::kCached) {
      known = !(mapping.attributes & kHugeTlb) &&
              sys::call(SYS_mincore, at, pages * kPageBytes, sys::arg(cached)) &&
              !may_hide_pages(mapping);
      return;
    }
    if (wanted == Wanted::kAll) return;
    const Result<u64> got =
        sys::pread_full(pagemap_fd, entries, pages * 8, at / kPageBytes * 8);
    known = got && got.value == pages * 8;
  }
  bool has(u64 page, Wanted wanted) const {
    if (!known) return wanted != Wanted::kUnwritten;
    if (wanted == Wanted::kCached) return cached[page] & 1;
    const u64 entry = entries[page];
    if (wanted == Wanted::kExisting) return entry & (sys::kPmPresent | sys::kPmSwap);
    const bool written =
        (entry & sys::kPmSwap) || ((entry & sys::kPmPresent) && !(entry & sys::kPmFile));
    return written == (wanted == Wanted::kWritten);
  }
};

}  // namespace

Status Pages::open() {
  const Result<u64> memory = sys::open("/proc/self/mem", sys::kReadOnly | sys::kCloseOnExec);
  const Result<u64> pagemap = sys::open("/proc/self/pagemap", sys::kReadOnly | sys::kCloseOnExec);
  const Result<u64> map = sys::mmap(0, kRunPages * kPageBytes, sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous);
  const Result<u64> needed[] = {memory, pagemap, map};
  for (const Result<u64>& done : needed)
    if (!done) return failure(done.error);
  memory_fd = int(memory.value);
  pagemap_fd = int(pagemap.value);
  buffer = reinterpret_cast<u8*>(map.value);
  return success();
}

void Pages::close() {
  (void)sys::close(memory_fd);
  (void)sys::close(pagemap_fd);
  (void)sys::munmap(sys::arg(buffer), kRunPages * kPageBytes);
}

/// Pages that are not there, such as those beyond the end of a file, become zero.
Status Pages::read(u64 address, u64 pages, bool all_are_there) {
  const Result<u64> got = sys::pread_full(memory_fd, buffer, pages * kPageBytes, address);
  if (got && got.value == pages * kPageBytes) return success();
  for (u64 i = 0; i < pages; i++) {
    u8* page = buffer + i * kPageBytes;
    const u64 at = address + i * kPageBytes;
    const Result<u64> one = sys::pread_full(memory_fd, page, kPageBytes, at);
    if (one && one.value == kPageBytes) continue;
    u64 entry = 0;
    (void)sys::pread_full(pagemap_fd, &entry, sizeof entry, at / kPageBytes * 8);
    // In swap that cannot be read, say, or broken: there, and lost.
    if (all_are_there || (entry & (sys::kPmPresent | sys::kPmSwap))) {
      unreadable = at;
      return failure(sys::kEperm);
    }
    __builtin_memset(page, 0, kPageBytes);
  }
  return success();
}

/// Writes `pages` pages of the buffer.
Status Pages::put(u64 address, u64 pages, bool zeroes_too) {
  if (zeroes_too) return writer.pages(address, buffer, pages * kPageBytes);
  for (u64 i = 0; i < pages;) {
    if (is_zero(buffer + i * kPageBytes)) {
      i++;
      continue;
    }
    u64 end = i + 1;
    while (end < pages && !is_zero(buffer + end * kPageBytes)) end++;
    const Status done = writer.pages(address + i * kPageBytes, buffer + i * kPageBytes,
                                     (end - i) * kPageBytes);
    if (!done) return done;
    i = end;
  }
  return success();
}

Status Pages::save(const Mapping& mapping, Wanted wanted, u64 shift) {
  Chunk chunk;
  const NoNewPages forbidden(mapping);
  for (u64 at = mapping.start; at < mapping.end; at += kRunPages * kPageBytes) {
    const u64 left = (mapping.end - at) / kPageBytes;
    const u64 pages = left < kRunPages ? left : kRunPages;
    chunk.look(pagemap_fd, mapping, at, pages, wanted);
    for (u64 i = 0; i < pages;) {
      if (!chunk.has(i, wanted)) {
        i++;
        continue;
      }
      u64 end = i + 1;
      while (end < pages && chunk.has(end, wanted)) end++;
      const u64 address = at + i * kPageBytes;
      const Status got = read(address, end - i, chunk.known && wanted == Wanted::kCached);
      if (!got) return got;
      // Where a file would show through instead, a zero page is something.
      const Status saved = put(address + shift, end - i, wanted == Wanted::kWritten);
      if (!saved) return saved;
      i = end;
    }
  }
  return success();
}

Status Pages::save_file(int fd, u64 from, u64 to) {
  const Status settled = sys::settle_holes(fd);
  if (!settled) return settled;
  for (u64 at = from; at < to;) {
    const Result<u64> data = sys::lseek(fd, i64(at), sys::kSeekData);
    if (!data && data.error != sys::kEnxio) return failure(data.error);
    if (!data || data.value >= to) break;  // only a hole is left
    const Result<u64> hole = sys::lseek(fd, i64(data.value), sys::kSeekHole);
    u64 end = hole ? page_ceil(hole.value) : to;
    if (end > to) end = to;
    at = page_floor(data.value) > from ? page_floor(data.value) : from;
    while (at < end) {
      const u64 left = (end - at) / kPageBytes, pages = left < kRunPages ? left : kRunPages;
      const u64 bytes = pages * kPageBytes;
      const Result<u64> got = sys::pread_full(fd, buffer, bytes, at);
      if (!got) return failure(got.error);
      __builtin_memset(buffer + got.value, 0, bytes - got.value);
      const Status saved = put(at, pages, false);
      if (!saved) return saved;
      at += bytes;
    }
  }
  return success();
}

}  // namespace fermata::memory
