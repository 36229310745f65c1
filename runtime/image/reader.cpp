// SPDX-License-Identifier: Apache-2.0
// Every number of an image is foreign until it has been checked: a table must lie inside the file,
// its size must match its count, an extent must be page-aligned and inside the file.
#include "image/reader.h"

#include "base/crc32c.h"
#include "image/tables.h"
#include "sys/faults.h"
#include "sys/sys.h"

namespace fermata::image {
namespace {

u32 user() { return u32(sys::call(SYS_geteuid).value); }

constexpr u64 word_ceil(u64 bytes) { return (bytes + 7) & ~u64(7); }

/// The memory that header and tables need; 0 if a table is out of bounds.
u64 bytes_to_hold(const ImageHeader& h, const Reader& out) {
  u64 bytes = kHeaderBytes;
  const bool fits = each_table(h, out, [&](const TableRef& ref, const auto&) {
    return ref.offset <= h.file_bytes && ref.bytes <= h.file_bytes - ref.offset &&
           ref.offset % 8 == 0 && !__builtin_add_overflow(bytes, word_ceil(ref.bytes), &bytes);
  });
  return fits ? bytes : 0;
}

/// Reads a table to address `at`, which becomes where the next one goes. Returns false if it is
/// damaged.
template <typename T>
bool take_table(int fd, u64& at, const TableRef& ref, const T*& entries) {
  if (ref.count > ref.bytes / sizeof(T) || ref.bytes != ref.count * sizeof(T)) return false;
  T* const place = reinterpret_cast<T*>(at);
  const Result<u64> got = sys::pread_full(fd, place, ref.bytes, ref.offset);
  entries = place;
  at += word_ceil(ref.bytes);
  return got && got.value == ref.bytes && crc32c(entries, ref.bytes) == ref.crc;
}

bool take_tables(Reader& out) {
  const ImageHeader& h = *out.header;
  u64 at = sys::arg(out.header) + kHeaderBytes;
  const bool intact = each_table(h, out, [&](const TableRef& ref, auto& entries) {
    return take_table(out.fd, at, ref, entries);
  });
  return intact && h.strings.bytes > 0 && out.strings[h.strings.bytes - 1] == 0 &&
         h.tags.count == (h.sealing == kUnsealed ? 0 : h.extents.count);
}

bool header_intact(const ImageHeader& header) {
  u8 copy[kHeaderBytes];
  __builtin_memcpy(copy, &header, sizeof copy);
  reinterpret_cast<ImageHeader*>(copy)->header_crc = 0;
  return crc32c(copy, sizeof copy) == header.header_crc;
}

bool extent_in_bounds(const ImageHeader& h, const ImageExtent& e) {
  return e.address % 4096 == 0 && e.bytes % 4096 == 0 && e.bytes != 0 && e.bytes <= kExtentMost &&
         e.offset <= h.file_bytes && e.bytes <= h.file_bytes - e.offset &&
         e.address <= ~u64(0) - e.bytes;
}

/// Whether the extents of a region, file or object are in the table.
template <typename Owner>
bool has_listed_extents(const ImageHeader& h, const Owner& owner) {
  return owner.first_extent <= h.extents.count &&
         owner.extent_count <= h.extents.count - owner.first_extent;
}

bool region_in_bounds(const Reader& reader, const ImageRegion& r) {
  const ImageHeader& h = *reader.header;
  if (r.start % 4096 || r.end % 4096 || r.end <= r.start || !has_listed_extents(h, r) ||
      r.object > h.objects.count)
    return false;
  for (u64 i = r.first_extent; i < r.first_extent + r.extent_count; i++)
    if (reader.extents[i].address < r.start ||
        reader.extents[i].address + reader.extents[i].bytes > r.end)
      return false;
  return true;
}

bool extents_in_bounds(const Reader& reader) {
  const ImageHeader& h = *reader.header;
  for (u64 i = 0; i < h.extents.count; i++)
    if (!extent_in_bounds(h, reader.extents[i])) return false;
  // An extent must be in bounds itself before a region looks where it ends.
  for (u64 i = 0; i < h.regions.count; i++)
    if (!region_in_bounds(reader, reader.regions[i])) return false;
  for (u64 i = 0; i < h.files.count; i++)
    if (!has_listed_extents(h, reader.files[i])) return false;
  for (u64 i = 0; i < h.objects.count; i++)
    if (!has_listed_extents(h, reader.objects[i])) return false;
  return true;
}

/// Takes the memory for header and tables, and copies the header there.
Status hold(const void* header, u64 bytes, Reader& out) {
  const Result<u64> map = sys::mmap(0, bytes, sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous);
  if (!map) return failure(map.error);
  __builtin_memcpy(reinterpret_cast<void*>(map.value), header, kHeaderBytes);
  out.header = reinterpret_cast<const ImageHeader*>(map.value);
  out.held_bytes = bytes;
  return success();
}

/// A seal by anybody could be by who made the image, so only one by this key counts, and where
/// there is none, nothing that claims to have one.
Status check_seal(Reader& out, const char* key, const char* path, Message& why) {
  const ImageHeader& h = *out.header;
  const bool is_sealed = h.sealing != kUnsealed;
  if (!key[0] && !is_sealed) return success();
  if (!key[0]) why << "the image is sealed, and there is no key here: " << path;
  else if (!is_sealed) why << "the image is not sealed with your key: " << path;
  if (!key[0] || !is_sealed) return failure(sys::kEperm);
  u8 id[8];
  const Status derived = derive_keys(key, h.salt, out.keys, id, why);
  if (!derived) return derived;
  if (!fermata_seal_equal(id, h.key_id, sizeof id)) {
    why << "the image is sealed with another key than yours: " << path;
    return failure(sys::kEperm);
  }
  Tables tables;
  SealPart* next = tables;
  each_table(h, out, [&](const TableRef& ref, const void* entries) {
    *next++ = {entries, ref.bytes};
    return true;
  });
  u8 mac[32];
  header_mac(out.keys, h, tables, mac);
  wipe_stack();
  if (fermata_seal_equal(mac, h.mac, sizeof mac)) return success();
  why << "the image was changed by somebody who has not your key: " << path;
  return failure(sys::kEperm);
}

/// The seal tells who made an image; the MAC in the sealed manifest, that it is this one and not
/// another of the same user's: of an earlier checkpoint, say, or of another run.
Status check_listed(const Reader& reader, const char* wanted, const char* path, Message& why) {
  u8 mac[32] = {};
  if (!wanted[0]) return success();
  if (parse_bytes(wanted, mac) && fermata_seal_equal(mac, reader.header->mac, sizeof mac))
    return success();
  why << "the image is not the one that the manifest lists: " << path;
  return failure(sys::kEperm);
}

}  // namespace

bool is_own(const sys::KernelStat& info) {
  return info.uid == user() && !(info.mode & kWritableForOthers);
}

Result<u64> open_own(const char* path, u32 forbidden, const char* what, Message& why) {
  const Result<u64> file =
      sys::open(path, sys::kReadOnly | sys::kCloseOnExec | sys::kNonBlock);
  if (!file) {
    why << "cannot open " << what << " " << path;
    return file;
  }
  sys::KernelStat info{};
  const Result<u64> known = sys::fstat(int(file.value), &info);
  if (!known) why << "cannot look at " << what << " " << path;
  else if ((info.mode & sys::kTypeMask) != sys::kTypeRegular)
    why << what << " is no file: " << path;
  else if (info.uid != user()) why << what << " belongs to user " << info.uid << ": " << path;
  else if (info.mode & forbidden)
    why << "others may " << (info.mode & kWritableForOthers ? "write to " : "read ") << what << " "
        << path;
  else return file;
  (void)sys::close(int(file.value));
  return Result<u64>::fail(sys::kEperm);
}

bool is_known(u32 version) { return version >= kOldest && version <= kVersion; }

Status open_image(const char* path, const char* key, const char* mac, Reader& out, Message& why) {
  const Result<u64> file = open_own(path, kWritableForOthers, "the image", why);
  if (!file) return failure(file.error);
  out.fd = int(file.value);
  sys::KernelStat info;
  const Result<u64> known = sys::fstat(out.fd, &info);
  if (!known || u64(info.size) < kHeaderBytes) {
    why << "the image is truncated: " << path;
    return failure(sys::kEio);
  }
  const u64 file_bytes = u64(info.size);
  alignas(8) u8 head[kHeaderBytes] = {};
  const Result<u64> got = sys::pread_full(out.fd, head, sizeof head, 0);
  if (!got) {
    why << "cannot read the image " << path;
    return failure(got.error);
  }
  const ImageHeader& h = *reinterpret_cast<const ImageHeader*>(head);
  if (__builtin_memcmp(h.magic, kMagic, sizeof h.magic) || !is_known(h.version)) {
    why << "not an image of this Fermata's formats (version " << kOldest << " to " << kVersion
        << "): " << path;
    return failure(sys::kEinval);
  }
  if (!header_intact(h)) {
    why << "the image's header is damaged: " << path;
    return failure(sys::kEio);
  }
  if (h.file_bytes != file_bytes) {
    why << "the image is truncated: " << path << " has " << file_bytes << " bytes, not "
        << h.file_bytes;
    return failure(sys::kEio);
  }
  const u64 bytes = bytes_to_hold(h, out);
  const Status held = bytes ? hold(head, bytes, out) : failure(sys::kEio);
  if (bytes && !held) {
    why << "no memory for the tables of the image " << path;
    return held;
  }
  const bool taken = held && take_tables(out);
  if (taken) {
    Status sealed = check_seal(out, key, path, why);
    if (sealed) sealed = check_listed(out, mac, path, why);
    if (!sealed) return sealed;
  }
  const bool whole = taken && h.main_thread < h.threads.count && extents_in_bounds(out);
  if (!whole) {
    why << "a table of the image is damaged: " << path;
    return failure(sys::kEio);
  }
  out.string_bytes = h.strings.bytes;
  return success();
}

void free_tables(Reader& reader) {
  if (reader.held_bytes) (void)sys::munmap(sys::arg(reader.header), reader.held_bytes);
  if (reader.moved_bytes) (void)sys::munmap(sys::arg(reader.strings), reader.moved_bytes);
  const int fd = reader.fd;
  wipe(&reader.keys, sizeof reader.keys);
  reader = {};
  reader.fd = fd;
}

Result<u64> Reader::duplicate_clear(int descriptor) const {
  u64 end = ~u64(0);  // the numbers below it and above the next lower entry are free
  for (u64 i = header->files.count + 1; i-- > 0;) {
    const u64 first = i ? u64(files[i - 1].fd) + 1 : 0;
    const Result<u64> made = sys::fcntl(descriptor, sys::kDupFdCloexec, first > 2 ? first : 3);
    if (made && made.value < end) return made;
    if (made) (void)sys::close(int(made.value));
    end = first ? first - 1 : 0;
  }
  return Result<u64>::fail(sys::kEmfile);
}

int Reader::out_of_the_way(int descriptor) const {
  const Result<u64> moved = duplicate_clear(descriptor);
  if (!moved) return descriptor;
  (void)sys::close(descriptor);
  return int(moved.value);
}

Status read_extent(const Reader& reader, const ImageExtent& extent, void* place) {
  const Status reading = faults::failing(faults::Fault::kRestorePages);
  if (!reading) return reading;
  const Result<u64> got = sys::pread_full(reader.fd, place, extent.bytes, extent.offset);
  if (!got) return failure(got.error);
  const bool intact = got.value == extent.bytes && crc32c(place, extent.bytes) == extent.crc;
  if (!intact) return failure(sys::kEio);
  const u32 sealing = reader.header->sealing;
  if (sealing == kUnsealed) return success();
  bool fits;
  const ImageTag& wanted = reader.tags[&extent - reader.extents];
  if (sealing == kEncrypted) {
    const u64 number = u64(&extent - reader.extents);
    fits = fermata_seal_decrypt(&reader.keys, number, place, extent.bytes, wanted.tag);
  } else {
    ImageTag found;
    fermata_seal_tag(&reader.keys, place, extent.bytes, found.tag);
    fits = fermata_seal_equal(found.tag, wanted.tag, sizeof found);
  }
  wipe_stack();
  return fits ? success() : failure(sys::kEperm);
}

}  // namespace fermata::image
