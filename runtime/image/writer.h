// SPDX-License-Identifier: Apache-2.0
// Writes one rank's image (format: spec/image.toml). Freestanding; its tables live in reserved
// address space of their own, so that writing takes no allocator. Runs in the forked child.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "base/types.h"
#include "image/format.gen.h"
#include "image/seal.h"
#include "sys/sys.h"

namespace fermata::image {

/// An array that grows in place inside a reserved range; pages are taken as they are touched.
template <typename T>
struct Table {
  T* entries = nullptr;
  u64 count = 0;
  u64 capacity = 0;

  Status reserve(u64 wanted) {
    const Result<u64> map = sys::mmap(0, wanted * sizeof(T), sys::kProtRead | sys::kProtWrite,
                                      sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve);
    if (!map) return failure(map.error);
    entries = reinterpret_cast<T*>(map.value);
    capacity = wanted;
    return success();
  }
  /// A new zeroed entry, or null when the table is full.
  T* add() { return count < capacity ? &entries[count++] : nullptr; }
};

class Writer {
 public:
  ImageHeader& header() { return *reinterpret_cast<ImageHeader*>(header_page_); }
  Table<ImageRegion> regions;
  Table<ImageObject> objects;
  Table<ImageExtent> extents;
  Table<ImageThread> threads;
  Table<ImageFile> files;
  Table<ImageMember> members;
  Table<ImageAction> actions;
  Table<ImageSignal> signals;
  Table<ImageTimer> timers;
  Table<char> strings;   // string() fills it
  Table<ImageTag> tags;  // of a sealed image: pages() fills it

  /// Everything will be sealed with the key in this file. To be called first, if at all. Errors:
  /// errno with `why` filled.
  Status seal_with(const char* key, bool encrypted, Message& why);
  /// Creates the file. Errors: of open(2) and mmap(2).
  Status create(const char* path);
  /// Keeps a string; returns its offset in the string table (0 = the empty string, or no room).
  u32 string(const char* text);
  /// The string at an offset that string() returned.
  const char* text(u32 offset) const { return strings.entries + offset; }
  /// Appends pages as one extent at `address` (of memory, or an offset in a file's contents).
  /// bytes: a multiple of 4096, at most 4 MiB. Errors: of pwrite(2).
  Status pages(u64 address, const void* from, u64 bytes);
  /// Writes tables and header and flushes the file. Errors: of pwrite(2) and fsync(2).
  Status finish();

  int fd() const { return fd_; }
  u64 file_bytes() const { return at_; }

 private:
  template <typename T>
  Status put_table(const Table<T>& table, TableRef& ref);

  int fd_ = -1;
  u64 at_ = kHeaderBytes;  // where the next byte goes
  SealKeys keys_{};
  void* encrypted_ = nullptr;  // an extent
  alignas(8) u8 header_page_[kHeaderBytes] = {};
};

}  // namespace fermata::image
