// SPDX-License-Identifier: Apache-2.0
#include "launcher/site_cache.h"

#include <elf.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

struct CacheHeader {  // the sites tool's format, version 1
  char magic[8];      // FSITES01
  u32 version;
  u32 status;         // 0 ok, 1 refused: a NUL-terminated reason follows
  u64 count;
  u64 file_bytes;
  u8 build_id[20];
  u32 build_id_bytes;
  u32 crc;            // CRC32C of the offsets
  u32 reserved;
};
static_assert(sizeof(CacheHeader) == 64);

/// Looks for NT_GNU_BUILD_ID in one PT_NOTE segment.
bool find_build_id(const u8* notes, u64 bytes, SiteKey& key) {
  u64 at = 0;
  while (at + sizeof(Elf64_Nhdr) <= bytes) {
    const Elf64_Nhdr* note = reinterpret_cast<const Elf64_Nhdr*>(notes + at);
    const u64 name = at + sizeof *note;
    const u64 data = name + ((u64(note->n_namesz) + 3) & ~u64(3));
    const u64 next = data + ((u64(note->n_descsz) + 3) & ~u64(3));
    if (next > bytes) return false;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz > 0 && note->n_descsz <= 20) {
      __builtin_memcpy(key.bytes, notes + data, note->n_descsz);
      key.size = note->n_descsz;
      return true;
    }
    at = next;
  }
  return false;
}

}  // namespace

SiteKey site_key(int fd) {
  SiteKey key{};
  Elf64_Ehdr header;
  const Result<u64> got = sys::pread_full(fd, &header, sizeof header, 0);
  if (!got || got.value != sizeof header || header.e_phentsize != sizeof(Elf64_Phdr)) return key;
  for (u32 i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    u8 notes[1024];
    (void)sys::pread_full(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment);
    if (segment.p_type != PT_NOTE) continue;
    const u64 bytes = segment.p_filesz < sizeof notes ? segment.p_filesz : sizeof notes;
    if (!sys::pread_full(fd, notes, bytes, segment.p_offset)) continue;
    if (find_build_id(notes, bytes, key)) return key;
  }
  return key;
}

i32 open_sites(const SiteKey& key, const char* directory, SiteFile& out) {
  if (key.size == 0) return sys::kEinval;
  Path path;
  path << directory << "/";
  for (u32 i = 0; i < key.size; i++)
    path.put("0123456789abcdef"[key.bytes[i] >> 4]).put("0123456789abcdef"[key.bytes[i] & 15]);
  path << ".sites";
  const Result<u64> fd = sys::open(path.data, sys::kReadOnly | sys::kCloseOnExec);
  if (!fd) return fd.error;
  sys::KernelStat info;
  (void)sys::fstat(int(fd.value), &info);
  const u64 bytes = u64(info.size);
  const Result<u64> map =
      sys::mmap(0, bytes ? bytes : 1, sys::kProtRead, sys::kMapPrivate, int(fd.value));
  (void)sys::close(int(fd.value));
  if (!map) return map.error;
  out.mapped = map.value;
  out.mapped_bytes = bytes;
  const CacheHeader* header = reinterpret_cast<const CacheHeader*>(map.value);
  if (bytes < sizeof *header || __builtin_memcmp(header->magic, "FSITES01", 8) ||
      header->version != 1)
    return sys::kEinval;
  out.offsets = reinterpret_cast<const u64*>(header + 1);
  out.count = header->count;
  if (header->status == 1) {
    out.reason = reinterpret_cast<const char*>(header + 1);
    return bytes > sizeof *header ? sys::kEperm : sys::kEinval;
  }
  if (header->count > (bytes - sizeof *header) / 8) return sys::kEinval;
  return crc32c(out.offsets, out.count * 8) == header->crc ? 0 : sys::kEinval;
}

void close_sites(const SiteFile& sites) { (void)sys::munmap(sites.mapped, sites.mapped_bytes); }

}  // namespace fermata::launch
