// SPDX-License-Identifier: Apache-2.0
// Hashes that tell things apart which are not made to collide. Freestanding.
// Source: Fowler, Noll and Vo, FNV-1a (RFC 9923); over words with a shift more, for its product
// carries nothing from high bits to low ones.
#pragma once

#include "base/types.h"

namespace fermata {

inline constexpr u64 kHashStart = 0xcbf2'9ce4'8422'2325;
inline constexpr u64 kHashPrime = 0x100'0000'01b3;

inline u64 hash_word(u64 hash, u64 word) {
  hash = (hash ^ word) * kHashPrime;
  return hash ^ hash >> 29;
}
inline u64 hash_text(u64 hash, const char* text) {
  for (; *text; text++) hash = (hash ^ u8(*text)) * kHashPrime;
  return hash;
}

}  // namespace fermata
