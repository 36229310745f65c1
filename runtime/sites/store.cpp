// SPDX-License-Identifier: Apache-2.0
// Reading and writing cache files. A file that fails any check counts as absent and is made again.
#include "sites/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace fermata::sites {
namespace {

constexpr char kMagic[8] = {'F', 'S', 'I', 'T', 'E', 'S', '0', '1'};

u32 rotate(u32 value, int bits) { return value << bits | value >> (32 - bits); }

void sha1_block(const u8* block, u32 state[5]) {
  u32 w[80];
  for (int i = 0; i < 16; i++)
    w[i] = u32(block[4 * i]) << 24 | u32(block[4 * i + 1]) << 16 | u32(block[4 * i + 2]) << 8 |
           block[4 * i + 3];
  for (int i = 16; i < 80; i++) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; i++) {
    u32 f, k;
    if (i < 20) f = (b & c) | (~b & d), k = 0x5a827999;
    else if (i < 40) f = b ^ c ^ d, k = 0x6ed9eba1;
    else if (i < 60) f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
    else f = b ^ c ^ d, k = 0xca62c1d6;
    const u32 next = rotate(a, 5) + f + e + k + w[i];
    e = d, d = c, c = rotate(b, 30), b = a, a = next;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

/// SHA-1 names content here; nothing secret depends on it. Source: FIPS 180-4, section 6.1.
std::vector<u8> sha1(const u8* data, u64 bytes) {
  u32 state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  u64 done = 0;
  for (; bytes - done >= 64; done += 64) sha1_block(data + done, state);
  u8 tail[128] = {};
  const u64 rest = bytes - done;
  memcpy(tail, data + done, rest);
  tail[rest] = 0x80;
  const u64 tail_bytes = rest < 56 ? 64 : 128;
  for (int i = 0; i < 8; i++) tail[tail_bytes - 1 - u64(i)] = u8(bytes * 8 >> (8 * i));
  for (u64 i = 0; i < tail_bytes; i += 64) sha1_block(tail + i, state);
  std::vector<u8> out;
  for (const u32 word : state)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(u8(word >> shift));
  return out;
}

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
  return file.build_id().empty() ? sha1(file.data(), file.bytes()) : file.build_id();
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
