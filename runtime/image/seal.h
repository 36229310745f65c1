// SPDX-License-Identifier: Apache-2.0
// What makes an image authentic and, if wanted, secret: the functions of control/seal, which the
// launcher links, and the user's key. No key outlives what it is needed for: a rank reads the file
// when it writes an image or is restored from one, and an image holds no memory of the launcher.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/format.gen.h"
#include "image/tables.h"

namespace fermata::image {

struct SealKeys {  // of one image
  u8 bytes[96];
};
struct SealPart {
  const void* data;
  u64 bytes;
};

extern "C" {
void fermata_seal_keys(const u8* key, const u8* salt, SealKeys* keys, u8* id);
void fermata_seal_tag(const SealKeys* keys, const void* pages, u64 bytes, u8* tag);
void fermata_seal_encrypt(const SealKeys* keys, u64 extent, void* pages, u64 bytes, u8* tag);
bool fermata_seal_decrypt(const SealKeys* keys, u64 extent, void* pages, u64 bytes, const u8* tag);
void fermata_seal_mac(const SealKeys* keys, const SealPart* parts, u64 count, u8* mac);
bool fermata_seal_equal(const void* a, const void* b, u64 bytes);
}

inline constexpr u64 kExtentMost = 4 << 20;  // bytes
using Tables = SealPart[kTables];  // where they are in memory, in their order

/// Derives the keys of an image with this header's salt from the key in the file `path`, and the
/// public id of that. Errors: errno with `why` filled; the file is not the user's own, or no key.
Status derive_keys(const char* path, const u8* salt, SealKeys& keys, u8 (&id)[8], Message& why);

/// The MAC of a header block and its tables.
void header_mac(const SealKeys& keys, const ImageHeader& header, const Tables& tables,
                u8 (&mac)[32]);

}  // namespace fermata::image
