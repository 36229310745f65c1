// SPDX-License-Identifier: Apache-2.0
#include "image/writer.h"

#include "base/crc32c.h"
#include "sys/faults.h"

namespace fermata::image {

using faults::Fault;

Status Writer::seal_with(const char* key, bool encrypted, Message& why) {
  ImageHeader& h = header();
  const Result<u64> salted = sys::call(SYS_getrandom, sys::arg(h.salt), sizeof h.salt, 0);
  if (!salted || salted.value != sizeof h.salt) {
    why << "there are no random numbers";
    return failure(salted ? sys::kEio : salted.error);
  }
  const Status derived = derive_keys(key, h.salt, keys_, h.key_id, why);
  if (!derived) return derived;
  if (encrypted) {
    const Result<u64> map = sys::mmap(0, kExtentMost, sys::kProtRead | sys::kProtWrite,
                                      sys::kMapPrivate | sys::kMapAnonymous);
    if (!map) {
      why << "memory is short";
      return failure(map.error);
    }
    encrypted_ = reinterpret_cast<void*>(map.value);
  }
  h.sealing = encrypted ? kEncrypted : kAuthentic;
  return success();
}

Status Writer::create(const char* path) {
  const Result<u64> file =
      sys::open(path, sys::kReadWrite | sys::kCreate | sys::kExcl | sys::kCloseOnExec, 0600);
  if (!file) return failure(file.error);
  fd_ = int(file.value);
  const Status reserved[] = {regions.reserve(1 << 20), objects.reserve(1 << 16),
                             extents.reserve(1 << 24),
                             threads.reserve(1 << 16), files.reserve(1 << 20),
                             members.reserve(1 << 20),
                             actions.reserve(64),      signals.reserve(1 << 16),
                             timers.reserve(1 << 16),  strings.reserve(64 << 20),
                             tags.reserve(1 << 24)};
  for (const Status& status : reserved)
    if (!status) return status;
  strings.count = 1;  // offset 0 is the empty string
  __builtin_memcpy(header().magic, kMagic, sizeof header().magic);
  header().version = kVersion;
  header().header_bytes = kHeaderBytes;
  header().payload_offset = kHeaderBytes;
  return success();
}

u32 Writer::string(const char* text) {
  const u64 bytes = text_length(text) + 1;
  if (bytes == 1 || strings.count + bytes > strings.capacity) return 0;
  const u64 at = strings.count;
  __builtin_memcpy(strings.entries + at, text, bytes);
  strings.count += bytes;
  return u32(at);
}

Status Writer::pages(u64 address, const void* from, u64 bytes) {
  ImageExtent* extent = extents.add();
  if (!extent) return failure(sys::kEnomem);
  *extent = {address, bytes, at_, 0, 0};
  ImageTag* const tag = header().sealing == kUnsealed ? nullptr : tags.add();
  if (header().sealing == kEncrypted) {
    __builtin_memcpy(encrypted_, from, bytes);
    fermata_seal_encrypt(&keys_, extents.count - 1, encrypted_, bytes, tag->tag);
    from = encrypted_;
  } else if (header().sealing == kAuthentic) {
    fermata_seal_tag(&keys_, from, bytes, tag->tag);
  }
  extent->crc = crc32c(from, bytes);
  const Status done = faults::pwrite_full(Fault::kWriterPages, fd_, from, bytes, at_);
  at_ += bytes;
  return done;
}

template <typename T>
Status Writer::put_table(const Table<T>& table, TableRef& ref) {
  const u64 bytes = table.count * sizeof(T);
  ref = {at_, table.count, bytes, crc32c(table.entries, bytes), 0};
  const Status done =
      faults::pwrite_full(Fault::kWriterTables, fd_, table.entries, bytes, at_);
  at_ += (bytes + 7) & ~u64(7);
  return done;
}

Status Writer::finish() {
  ImageHeader& h = header();
  h.payload_bytes = at_ - h.payload_offset;
  Tables places;
  SealPart* next = places;
  Status done = success();
  const bool all = each_table(h, *this, [&](TableRef& ref, const auto& table) {
    done = put_table(table, ref);
    *next++ = {table.entries, ref.bytes};
    return bool(done);
  });
  if (!all) return done;
  h.file_bytes = at_;
  const Result<u64> size = sys::call(SYS_ftruncate, u64(fd_), at_);
  if (!size) return failure(size.error);
  if (h.sealing != kUnsealed) header_mac(keys_, h, places, h.mac);
  h.header_crc = 0;
  h.header_crc = crc32c(header_page_, kHeaderBytes);
  const Status put =
      faults::pwrite_full(Fault::kWriterHeader, fd_, header_page_, kHeaderBytes, 0);
  if (!put) return put;
  const Status flushing = faults::failing(Fault::kWriterFlush);
  if (!flushing) return flushing;
  const Result<u64> flushed = sys::fsync(fd_);
  return flushed ? success() : failure(flushed.error);
}

}  // namespace fermata::image
