// SPDX-License-Identifier: Apache-2.0
// Reading and writing cache files. A file that fails any check counts as absent and is made again.
#include "sites/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/sha1.h"

namespace fermata::sites {
namespace {

constexpr char kMagic[8] = {'F', 'S', 'I', 'T', 'E', 'S', '0', '1'};

constexpr std::array<u32, 256> make_crc_table() {
  std::array<u32, 256> table{};
  for (u32 i = 0; i < 256; i++) {
    u32 value = i;
    for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82f63b78u : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<u32, 256> kCrcTable = make_crc_table();

std::string path_of(const std::string& directory, const std::vector<u8>& id) {
  return directory + "/" + hex(id) + ".sites";
}

}  // namespace

u32 crc32c(const void* data, u64 bytes) {
  const u8* p = static_cast<const u8*>(data);
  u32 crc = ~0u;
  while (bytes--) crc = crc >> 8 ^ kCrcTable[(crc ^ *p++) & 0xff];
  return ~crc;
}

std::vector<u8> identity(const ElfFile& file) {
  if (!file.build_id().empty()) return file.build_id();
  const Sha1 content = sha1(file.data(), file.bytes());
  return {content.bytes, content.bytes + sizeof content.bytes};
}

std::string hex(const std::vector<u8>& bytes) {
  std::string out;
  for (const u8 byte : bytes) {
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

std::string store(const std::string& directory, const std::vector<u8>& id, u64 file_bytes,
                  const Findings& findings) {
  SitesHeader head{};
  memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = 1;
  head.status = findings.refused.empty() ? 0 : 1;
  head.count = findings.offsets.size();
  head.file_bytes = file_bytes;
  memcpy(head.build_id, id.data(), id.size());
  head.build_id_bytes = u32(id.size());
  head.crc32c = crc32c(findings.offsets.data(), head.count * 8);
  head.revision = kFinderRevision;
  // Several ranks may find the same library missing at once: each writes a file of its own, and the
  // renames put equal contents under the final name.
  const std::string name = path_of(directory, id);
  const std::string aside = name + "." + std::to_string(getpid()) + ".tmp";
  FILE* out = fopen(aside.c_str(), "wb");
  if (!out) return "cannot create " + aside + ": " + strerror(errno);
  bool good = fwrite(&head, sizeof head, 1, out) == 1;
  if (head.count) good = good && fwrite(findings.offsets.data(), 8, head.count, out) == head.count;
  if (head.status)
    good = good && fwrite(findings.refused.c_str(), findings.refused.size() + 1, 1, out) == 1;
  good = fflush(out) == 0 && good;
  good = fclose(out) == 0 && good;
  if (good && rename(aside.c_str(), name.c_str()) == 0) return "";
  const std::string error = "cannot write " + name + ": " + strerror(errno);
  unlink(aside.c_str());
  return error;
}

bool load(const std::string& directory, const std::vector<u8>& id, u64 file_bytes,
          Findings* findings) {
  FILE* in = fopen(path_of(directory, id).c_str(), "rb");
  if (!in) return false;
  SitesHeader head;
  bool good = fread(&head, sizeof head, 1, in) == 1 &&
              memcmp(head.magic, kMagic, sizeof kMagic) == 0 && head.version == 1 &&
              head.revision == kFinderRevision && head.file_bytes == file_bytes &&
              head.build_id_bytes == id.size() &&
              memcmp(head.build_id, id.data(), id.size()) == 0 && head.count <= file_bytes;
  if (good) {
    findings->offsets.resize(head.count);
    if (head.count) good = fread(findings->offsets.data(), 8, head.count, in) == head.count;
    good = good && crc32c(findings->offsets.data(), head.count * 8) == head.crc32c;
    char reason[512] = {};
    if (head.status && fread(reason, 1, sizeof reason - 1, in) > 0) findings->refused = reason;
    good = good && (head.status == 0) == findings->refused.empty();
  }
  fclose(in);
  if (!good) *findings = Findings{};
  return good;
}

}  // namespace fermata::sites
