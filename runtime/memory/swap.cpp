// SPDX-License-Identifier: Apache-2.0
#include "memory/swap.h"

#include "base/text.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

constexpr u64 kUnknown = ~u64(0);
u64 noted = kUnknown;

bool swap_in_use() {
  u64 info[16] = {};  // struct sysinfo: totalswap and freeswap are words 8 and 9
  return !sys::call(SYS_sysinfo, sys::arg(info)) || info[8] != info[9];
}

u64 swapped_out() {
  static char text[1 << 15];
  text[0] = 0;
  (void)sys::read_text("/proc/vmstat", text, sizeof text);
  return count_swapped_out(text);
}

}  // namespace

void note_swapping() { noted = swapped_out(); }

bool may_hide_pages(const Mapping& mapping) {
  if (!swap_in_use()) return false;
  return mapping.swapped_kib || noted == kUnknown || swapped_out() != noted;
}

u64 count_swapped_out(const char* text) {
  u64 sum = kUnknown;
  for (const char* p = text; *p;) {
    bool counts = false;
    for (; *p && *p != ' ' && *p != '\n'; p++) counts = counts || text_starts(p, "swpout");
    while (*p == ' ') p++;
    const u64 value = parse_decimal(p);
    if (counts) sum = (sum == kUnknown ? 0 : sum) + value;
    while (*p && *p != '\n') p++;
    if (*p) p++;
  }
  return sum;
}

}  // namespace fermata::memory
