// SPDX-License-Identifier: Apache-2.0
// Images, as a restart and as `fermata verify` read them.
//
// Input: one byte of options, then an image whose header block is cut to the header. Random changes
// would all end at a checksum, so option 1 makes the checksums fit and option 2 the stated size.
// Option 4 seals it with a key, encrypted if it says so itself: nothing else is believed then.
// Magic and version become those of today (kOtherVersion).
#include <string.h>

#include <vector>

#include "bytes.h"
#include "image/reader.cpp"
#include "image/seal.cpp"

using namespace fermata;
using namespace fermata::image;

/// The control plane's reader: 0 if it believes the image and all its pages.
extern "C" i32 fermata_fuzz_image(const char* path, bool sealed);

namespace {

volatile u64 kept;  // so that reads are not optimised away
enum Option : u8 { kFitChecksums = 1, kFitSize = 2, kSeal = 4 };

constexpr u8 kKey = 0x5a;  // each byte of it

struct Sealer {
  std::vector<u8>& image;
  ImageHeader& header;
  SealKeys keys;

  Sealer(std::vector<u8>& image_, ImageHeader& header_) : image(image_), header(header_) {
    u8 key[32];
    memset(key, kKey, sizeof key);
    fermata_seal_keys(key, header.salt, &keys, header.key_id);
    if (header.sealing != kEncrypted) header.sealing = kAuthentic;
  }
  bool has(u64 offset, u64 bytes) const {
    return offset <= image.size() && bytes <= image.size() - offset;
  }
  /// Extents that lie over each other or over a table do not come out well, and are refused.
  void tag_extents() {
    const TableRef& tags = header.tags;
    const TableRef& table = header.extents;
    for (u64 i = 0; i < table.count && has(table.offset, (i + 1) * sizeof(ImageExtent)); i++) {
      u8* const place = image.data() + table.offset + i * sizeof(ImageExtent);
      ImageExtent extent;
      memcpy(&extent, place, sizeof extent);
      if (!has(extent.offset, extent.bytes)) continue;
      u8* const pages = image.data() + extent.offset;
      ImageTag tag;
      if (header.sealing == kAuthentic) {
        fermata_seal_tag(&keys, pages, extent.bytes, tag.tag);
      } else {
        fermata_seal_encrypt(&keys, i, pages, extent.bytes, tag.tag);
        extent.crc = crc32c(pages, extent.bytes);
      }
      memcpy(place, &extent, sizeof extent);
      const bool has_place = i < tags.count && has(tags.offset, (i + 1) * sizeof tag);
      if (has_place) memcpy(image.data() + tags.offset + i * sizeof tag, &tag, sizeof tag);
    }
  }
  void make_mac() {
    Tables tables;
    SealPart* next = tables;
    const bool are_there = each_table(header, Reader{}, [&](const TableRef& ref, const auto&) {
      if (!has(ref.offset, ref.bytes)) return false;
      *next++ = {image.data() + ref.offset, ref.bytes};
      return true;
    });
    if (!are_there) return;
    alignas(8) u8 block[kHeaderBytes];
    memcpy(block, image.data(), sizeof block);
    memcpy(block, &header, sizeof header);
    header_mac(keys, *reinterpret_cast<ImageHeader*>(block), tables, header.mac);
  }
};

std::vector<u8> whole_image(const u8* data, size_t size) {
  const size_t head = size < sizeof(ImageHeader) ? size : sizeof(ImageHeader);
  std::vector<u8> image(data, data + head);
  if (head < sizeof(ImageHeader)) return image;
  image.resize(kHeaderBytes);
  image.insert(image.end(), data + head, data + size);
  return image;
}

void fit(std::vector<u8>& image, u8 options) {
  if (image.size() < kHeaderBytes) return;
  ImageHeader header;
  memcpy(&header, image.data(), sizeof header);
  if (header.version != fuzz::kOtherVersion) {
    memcpy(header.magic, kMagic, sizeof header.magic);
    if (!is_known(header.version)) header.version = kVersion;
  }
  if (options & kFitSize) header.file_bytes = image.size();
  Sealer sealer(image, header);
  if (!(options & kSeal)) header.sealing = kUnsealed;
  else sealer.tag_extents();
  if (options & kFitChecksums) {
    TableRef* const tables[] = {&header.regions, &header.objects, &header.extents, &header.threads,
                                &header.files,   &header.members, &header.actions, &header.signals,
                                &header.timers,  &header.strings, &header.tags};
    for (TableRef* table : tables)
      if (table->offset <= image.size() && table->bytes <= image.size() - table->offset)
        table->crc = crc32c(image.data() + table->offset, table->bytes);
    if (options & kSeal) sealer.make_mac();
    header.header_crc = 0;
  }
  memcpy(image.data(), &header, sizeof header);
  if (!(options & kFitChecksums)) return;
  header.header_crc = crc32c(image.data(), kHeaderBytes);
  memcpy(image.data(), &header, sizeof header);
}

/// Uses everything that the reader vouches for. Returns whether every page is intact.
bool read_all(const Reader& reader) {
  static u8 pages[kExtentMost];
  const ImageHeader& h = *reader.header;
  bool intact = true;
  for (u64 i = 0; i < h.extents.count; i++) {
    const ImageExtent& extent = reader.extents[i];
    REQUIRE(extent.bytes <= sizeof pages && extent.address + extent.bytes > extent.address);
    if (!read_extent(reader, extent, pages)) intact = false;
  }
  for (u64 i = 0; i < h.regions.count; i++) {
    const ImageRegion& region = reader.regions[i];
    (void)text_length(reader.string(region.path_string));
    for (u64 k = 0; k < region.extent_count; k++) {
      const ImageExtent& extent = reader.extents[region.first_extent + k];
      REQUIRE(extent.address >= region.start && extent.address < region.end &&
              extent.bytes <= region.end - extent.address);
    }
    REQUIRE(region.object <= h.objects.count);
  }
  u64 sum = reader.threads[h.main_thread].frame;
  for (u64 i = 0; i < h.files.count; i++)
    for (u64 k = 0; k < reader.files[i].extent_count; k++)
      sum += reader.extents[reader.files[i].first_extent + k].offset;
  for (u64 i = 0; i < h.objects.count; i++)
    for (u64 k = 0; k < reader.objects[i].extent_count; k++)
      sum += reader.extents[reader.objects[i].first_extent + k].offset;
  for (u64 i = 0; i < h.members.count; i++) sum += text_length(reader.string(
      reader.members[i].path_string));
  kept = sum;
  return intact;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  static fuzz::MemoryFile file, key;
  if (size == 0) return 0;
  char text[2 * 32 + 1];
  for (u32 i = 0; i < 32; i++) snprintf(text + 2 * i, 3, "%02x", kKey);
  key.hold(text, sizeof text - 1);
  const bool sealed = data[0] & kSeal;
  std::vector<u8> image = whole_image(data + 1, size - 1);
  fit(image, data[0]);
  file.hold(image.data(), image.size());
  Reader reader;
  Message why;
  const Status opened = open_image(file.path(), sealed ? key.path() : "", "", reader, why);
  REQUIRE(bool(opened) == (why.size == 0));
  const bool believed = opened && read_all(reader);
  const bool verified = fermata_fuzz_image(file.path(), sealed) == 0;
  // What `verify` calls damaged must not restart.
  REQUIRE(verified || !believed);
  fuzz::tell("%s", believed ? "accepted" : opened ? "its pages are damaged" : why.data);
  free_tables(reader);
  if (reader.fd >= 0) close(reader.fd);
  return 0;
}
