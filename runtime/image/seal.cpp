// SPDX-License-Identifier: Apache-2.0
#include "image/seal.h"

#include "image/reader.h"
#include "sys/sys.h"

namespace fermata::image {
namespace {

constexpr u64 kKeyBytes = 32;

/// "00ff..." -> bytes. False: it is no such text.
bool parse_key(const char* text, u8 (&key)[kKeyBytes]) {
  for (u64 i = 0; i < 2 * kKeyBytes; i++) {
    const char digit[] = {text[i], 0};
    const char* end = digit;
    const u64 value = parse_hex(end);
    if (end == digit) return false;
    key[i / 2] = u8(key[i / 2] << 4 | value);
  }
  return true;
}

}  // namespace

Status derive_keys(const char* path, const u8* salt, SealKeys& keys, u8 (&id)[8], Message& why) {
  const Result<u64> file = open_own(path, kReadableForOthers, "the key", why);
  if (!file) return failure(file.error);
  char text[2 * kKeyBytes + 1] = {};
  const Result<u64> got = sys::pread_full(int(file.value), text, 2 * kKeyBytes, 0);
  (void)sys::close(int(file.value));
  u8 key[kKeyBytes] = {};
  if (!got || !parse_key(text, key)) {
    why << "cannot read the key " << path;
    return failure(got ? sys::kEinval : got.error);
  }
  fermata_seal_keys(key, salt, &keys, id);
  return success();
}

void header_mac(const SealKeys& keys, const ImageHeader& header, const Tables& tables,
                u8 (&mac)[32]) {
  alignas(8) u8 block[kHeaderBytes];
  __builtin_memcpy(block, &header, sizeof block);
  ImageHeader& h = *reinterpret_cast<ImageHeader*>(block);
  __builtin_memset(h.mac, 0, sizeof h.mac);
  h.header_crc = 0;
  SealPart parts[1 + kTables] = {{block, sizeof block}};
  for (u64 i = 0; i < kTables; i++) parts[1 + i] = tables[i];
  fermata_seal_mac(&keys, parts, 1 + kTables, mac);
}

extern "C" [[noreturn]] void fermata_seal_broken() {
  sys::say("fermata: what seals images has failed\n");
  sys::exit_group(70);
}

}  // namespace fermata::image
