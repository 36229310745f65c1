// SPDX-License-Identifier: Apache-2.0
// The few words every part of the runtime is written in. Freestanding: includes nothing of a libc.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace fermata {

using i8 = int8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

inline constexpr u64 kPageBytes = 4096;

constexpr u64 page_floor(u64 value) { return value & ~(kPageBytes - 1); }
constexpr u64 page_ceil(u64 value) { return page_floor(value + kPageBytes - 1); }

#define FERMATA_LIKELY(x) __builtin_expect(!!(x), 1)
#define FERMATA_UNLIKELY(x) __builtin_expect(!!(x), 0)

}  // namespace fermata
