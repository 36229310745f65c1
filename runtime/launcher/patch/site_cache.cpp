// SPDX-License-Identifier: Apache-2.0
#include "launcher/patch/site_cache.h"

#include "base/crc32c.h"
#include "base/sha1.h"
#include "base/sites_revision.h"
#include "base/text.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr char kCacheMagic[9] = "FSITES01";
constexpr u32 kCacheVersion = 1;

struct CacheHeader {  // the sites tool's format
  char magic[8];
  u32 version;
  u32 status;         // 0 ok, 1 refused: a NUL-terminated reason follows
  u64 count;
  u64 file_bytes;
  u8 build_id[20];
  u32 build_id_bytes;
  u32 crc;            // CRC32C of the offsets
  u32 revision;       // of the rules that made it
};
static_assert(sizeof(CacheHeader) == 64);

/// Whether what was opened is of this type, and nobody has written it who could not have written
/// this launcher as well.
bool counts(int fd, u32 type) {
  constexpr u32 kWritableForOthers = 022;
  sys::KernelStat info{}, own{};
  if (!sys::fstat(fd, &info) || !sys::stat("/proc/self/exe", &own)) return false;
  const u32 user = u32(sys::call(SYS_geteuid).value);
  const bool fits = (info.mode & sys::kTypeMask) == type && !(info.mode & kWritableForOthers);
  return fits && (info.uid == 0 || info.uid == user || info.uid == own.uid);
}

}  // namespace

image::BuildId site_key(int fd) {
  image::BuildId key = image::build_id(fd);
  sys::KernelStat info;
  if (key.size || !sys::fstat(fd, &info)) return key;
  const u64 bytes = u64(info.size);
  const Result<u64> map = sys::mmap(0, bytes, sys::kProtRead, sys::kMapPrivate, fd);
  if (!map) return key;
  const Sha1 content = sha1(reinterpret_cast<const void*>(map.value), bytes);
  (void)sys::munmap(map.value, bytes);
  __builtin_memcpy(key.bytes, content.bytes, sizeof key.bytes);
  key.size = sizeof key.bytes;
  return key;
}

i32 map_sites(int fd, SiteFile& out) {
  sys::KernelStat info{};
  (void)sys::fstat(fd, &info);
  const u64 bytes = u64(info.size);
  const Result<u64> map =
      sys::mmap(0, bytes ? bytes : 1, sys::kProtRead, sys::kMapPrivate, fd);
  if (!map) return map.error;
  out.mapped = map.value;
  out.mapped_bytes = bytes;
  const CacheHeader* header = reinterpret_cast<const CacheHeader*>(map.value);
  if (bytes < sizeof *header ||
      __builtin_memcmp(header->magic, kCacheMagic, sizeof header->magic) ||
      header->version != kCacheVersion)
    return sys::kEinval;
  if (header->revision != kFinderRevision) {
    close_sites(out);
    out = SiteFile{};
    return sys::kEnoent;
  }
  out.offsets = reinterpret_cast<const u64*>(header + 1);
  out.count = header->count;
  if (header->status == 1) {
    out.reason = reinterpret_cast<const char*>(header + 1);
    const bool ends = reinterpret_cast<const char*>(map.value)[bytes - 1] == 0;
    return bytes > sizeof *header && ends ? sys::kEperm : sys::kEinval;
  }
  if (header->count > (bytes - sizeof *header) / 8) return sys::kEinval;
  return crc32c(out.offsets, out.count * 8) == header->crc ? 0 : sys::kEinval;
}

i32 open_sites(const image::BuildId& key, const char* directory, SiteFile& out) {
  if (key.size == 0) return sys::kEinval;
  if (!directory[0]) return sys::kEnoent;
  Text<48> name;
  image::print_build_id(key, name);
  name << ".sites";
  const Result<u64> place =
      sys::open(directory, sys::kReadOnly | sys::kDirectory | sys::kCloseOnExec);
  if (!place) return sys::kEnoent;
  Result<u64> fd = Result<u64>::fail(sys::kEnoent);
  if (counts(int(place.value), sys::kTypeDirectory))
    fd = sys::open_at(int(place.value), name.data,
                      sys::kReadOnly | sys::kNoFollow | sys::kNonBlock | sys::kCloseOnExec);
  (void)sys::close(int(place.value));
  if (!fd) return sys::kEnoent;
  const i32 error =
      counts(int(fd.value), sys::kTypeRegular) ? map_sites(int(fd.value), out) : sys::kEnoent;
  (void)sys::close(int(fd.value));
  return error;
}

void close_sites(const SiteFile& sites) { (void)sys::munmap(sites.mapped, sites.mapped_bytes); }

}  // namespace fermata::launch
