// SPDX-License-Identifier: Apache-2.0
#include "image/seal.h"

#include "base/rank.gen.h"
#include "image/reader.h"
#include "sys/sys.h"

namespace fermata::image {
namespace {

constexpr u64 kKeyBytes = 32;

struct KeyText {  // as it is in the file, and as it is used
  char text[2 * kKeyBytes + 1];
  u8 key[kKeyBytes];
  ~KeyText() { wipe(this, sizeof *this); }
};

}  // namespace

[[gnu::noinline]] void wipe_stack() {
  u8 below[12 << 10];
  wipe(below, sizeof below);
}

bool parse_bytes(const char* text, u8 (&bytes)[32]) {
  for (u64 i = 0; i < 2 * sizeof bytes; i++) {
    const char digit[] = {text[i], 0};
    const char* end = digit;
    const u64 value = parse_hex(end);
    if (end == digit) return false;
    bytes[i / 2] = u8(bytes[i / 2] << 4 | value);
  }
  return true;
}

Status derive_keys(const char* path, const u8* salt, SealKeys& keys, u8 (&id)[8], Message& why) {
  const Result<u64> file = open_own(path, kReadableForOthers, "the key", why);
  if (!file) return failure(file.error);
  KeyText read = {};
  const Result<u64> got = sys::pread_full(int(file.value), read.text, 2 * kKeyBytes, 0);
  (void)sys::close(int(file.value));
  if (!got || !parse_bytes(read.text, read.key)) {
    why << "cannot read the key " << path;
    return failure(got ? sys::kEinval : got.error);
  }
  fermata_seal_keys(read.key, salt, &keys, id);
  wipe_stack();
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
  sys::exit_group(kExitLauncher);
}

}  // namespace fermata::image
