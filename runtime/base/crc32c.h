// SPDX-License-Identifier: Apache-2.0
// CRC32C (Castagnoli) by the SSE4.2 instruction, which every CPU with FSGSBASE has.
// Source: RFC 3720, appendix B.4; the customary pre- and post-inversion.
#pragma once

#include "base/types.h"

namespace fermata {

/// The CRC32C of `bytes` bytes, continuing from `crc` (0 to start).
__attribute__((target("sse4.2"))) inline u32 crc32c(const void* data, u64 bytes, u32 crc = 0) {
  const u8* p = static_cast<const u8*>(data);
  u64 state = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    u64 word;
    __builtin_memcpy(&word, p, 8);
    state = __builtin_ia32_crc32di(state, word);
  }
  for (; bytes; bytes--, p++) state = __builtin_ia32_crc32qi(u32(state), *p);
  return ~u32(state);
}

}  // namespace fermata
