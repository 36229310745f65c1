// SPDX-License-Identifier: Apache-2.0
// SHA-1 names the content of files that carry no build-id. Nothing secret depends on it.
// Source: FIPS 180-4, sections 5.1.1 and 6.1.2.
#pragma once

#include "base/types.h"

namespace fermata {

struct Sha1 {
  u8 bytes[20];
};

namespace sha1_detail {

constexpr u32 rotate(u32 value, int bits) { return value << bits | value >> (32 - bits); }

inline void add_block(const u8* block, u32 (&state)[5]) {
  u32 w[16];
  for (int i = 0; i < 16; i++) {
    u32 word;
    __builtin_memcpy(&word, block + 4 * i, 4);
    w[i] = __builtin_bswap32(word);
  }
  u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; i++) {
    if (i >= 16)
      w[i & 15] = rotate(w[(i - 3) & 15] ^ w[(i - 8) & 15] ^ w[(i - 14) & 15] ^ w[i & 15], 1);
    u32 f, k;
    if (i < 20) f = (b & c) | (~b & d), k = 0x5a827999;
    else if (i < 40) f = b ^ c ^ d, k = 0x6ed9eba1;
    else if (i < 60) f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
    else f = b ^ c ^ d, k = 0xca62c1d6;
    const u32 next = rotate(a, 5) + f + e + k + w[i & 15];
    e = d, d = c, c = rotate(b, 30), b = a, a = next;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

}  // namespace sha1_detail

/// The SHA-1 of `bytes` bytes.
inline Sha1 sha1(const void* data, u64 bytes) {
  const u8* const p = static_cast<const u8*>(data);
  u32 state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  u64 done = 0;
  for (; bytes - done >= 64; done += 64) sha1_detail::add_block(p + done, state);
  u8 tail[128] = {};
  const u64 rest = bytes - done;
  __builtin_memcpy(tail, p + done, rest);
  tail[rest] = 0x80;
  const u64 tail_bytes = rest < 56 ? 64 : 128;
  for (int i = 0; i < 8; i++) tail[tail_bytes - 1 - u64(i)] = u8(bytes * 8 >> (8 * i));
  for (u64 i = 0; i < tail_bytes; i += 64) sha1_detail::add_block(tail + i, state);
  Sha1 out;
  for (int i = 0; i < 20; i++) out.bytes[i] = u8(state[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

}  // namespace fermata
