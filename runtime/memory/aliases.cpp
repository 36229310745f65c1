// SPDX-License-Identifier: Apache-2.0
#include "memory/aliases.h"

namespace fermata::memory {
namespace {

// Threads of the upper half note and forget; the table is read while they stand still.
struct Alias {
  u64 start, end;  // end 0: a free entry; 1: one that is being filled
};
constexpr u32 kCapacity = 16384;
Alias aliases[kCapacity];
u32 used;  // entries that have ever been filled

}  // namespace

bool note_alias(u64 start, u64 bytes) {
  for (u32 i = 0; i < kCapacity; i++) {
    u64 free = 0;
    if (!__atomic_compare_exchange_n(&aliases[i].end, &free, 1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
      continue;
    aliases[i].start = start;
    __atomic_store_n(&aliases[i].end, start + bytes, __ATOMIC_RELEASE);
    u32 known = __atomic_load_n(&used, __ATOMIC_RELAXED);
    while (known < i + 1 && !__atomic_compare_exchange_n(&used, &known, i + 1, false,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return true;
  }
  return false;
}

void forget_alias(u64 start) {
  for (u32 i = 0; i < used; i++)
    if (aliases[i].end > 1 && aliases[i].start == start)
      return __atomic_store_n(&aliases[i].end, u64(0), __ATOMIC_RELEASE);
}

bool is_alias(const Mapping& mapping) {
  for (u32 i = 0; i < used && mapping.shared; i++)
    if (mapping.start >= aliases[i].start && mapping.start < aliases[i].end) return true;
  return false;
}

}  // namespace fermata::memory
