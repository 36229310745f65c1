// SPDX-License-Identifier: Apache-2.0
// Moves pages of memory into an image: which of them, and how they are read. Pages are read through
// /proc/self/mem, which reads unreadable guard pages and reports a page beyond a file's end as an
// error where touching it would be SIGBUS.
#pragma once

#include "base/result.h"
#include "image/writer.h"
#include "memory/maps.h"

namespace fermata::memory {

/// What a page must be to be saved.
enum class Wanted {
  kAll,       // any that is not zero
  kExisting,  // one that exists, and is not zero
  kWritten,   // one that differs from the file it was mapped from
  kUnwritten, // one that shows the file it was mapped from, and is not zero
  kCached,    // of shared memory without a file on disk: one that exists, and is not zero; all
              // that are not zero where the kernel cannot tell for sure
};

struct Pages {
  image::Writer& writer;
  int memory_fd = -1, pagemap_fd = -1;
  u8* buffer = nullptr;  // kRunPages pages

  u64 unreadable = 0;    // a page that is there, but not even to be read through /proc/self/mem

  static constexpr u64 kRunPages = 1024;  // 4 MiB: the largest extent

  Status open();
  void close();
  /// Saves the wanted pages of `mapping` as extents whose addresses are the pages' own plus `shift`
  /// (modulo 2^64). Errors: of pwrite(2).
  Status save(const Mapping& mapping, Wanted wanted, u64 shift);
  /// Saves what lies in bytes [from, to) of an open file, holes left out, as extents whose address
  /// is the offset in it. from and to: multiples of a page. Errors: of pread(2) and pwrite(2).
  Status save_file(int fd, u64 from, u64 to);

 private:
  /// Fills the buffer. Errors: EPERM with `unreadable`.
  Status read(u64 address, u64 pages, bool all_are_there);
  Status put(u64 address, u64 pages, bool zeroes_too);
};

}  // namespace fermata::memory
