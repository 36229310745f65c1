// SPDX-License-Identifier: Apache-2.0
// What /proc says of mappings, as captured, and what the parser makes of it.
#include "memory/maps.cpp"
#include "memory/swap.cpp"

#include <stdio.h>
#include <string.h>

using namespace fermata;
using namespace fermata::memory;

#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                    \
      return 1;                                                                 \
    }                                                                           \
  } while (0)

static int program_code(const Mapping& m) {
  EXPECT(m.start == 0x400000 && m.end == 0x452000 && m.bytes() == 0x52000);
  EXPECT(m.read && !m.write && m.execute && !m.shared);
  EXPECT(m.device == 0x802 && m.inode == 173521 && !strcmp(m.path, "/usr/bin/dbus daemon"));
  EXPECT(is_saved(m) && m.attributes == 0);
  return 0;
}
static int deleted_segment(const Mapping& m) {
  EXPECT(m.shared && m.write && m.file_offset == 0x3000 && m.device == 1);
  EXPECT(m.inode == 98305 && !strcmp(m.path, "/SYSV00001234 (deleted)") && is_saved(m));
  return 0;
}

static int plain_lines() {
  char text[] =
      "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/dbus daemon\n"
      "120000000000-120000001000 rw-s 00003000 00:01 98305                      /SYSV00001234 "
      "(deleted)\n"
      "7ffe00000000-7ffe00021000 ---p 00000000 00:00 0 \n";
  Mapping m;
  char* next = parse_mapping(text, m);
  EXPECT(next);
  if (program_code(m)) return 1;
  next = parse_mapping(next, m);
  EXPECT(next);
  if (deleted_segment(m)) return 1;
  next = parse_mapping(next, m);
  EXPECT(next && *next == 0 && !m.read && m.inode == 0 && m.path[0] == 0 && !is_saved(m));
  return 0;
}

static int detailed_lines() {
  char text[] =
      "120000200000-120000400000 rw-p 00000000 00:00 0 \n"
      "Size:               2048 kB\n"
      "KernelPageSize:        4 kB\n"
      "THPeligible:           1\n"
      "Swap:                 12 kB\n"
      "SwapPss:               6 kB\n"
      "ProtectionKey:         3\n"
      "VmFlags: rd wr mr mw me ac lo hg dc \n"
      "120000400000-120000401000 rw-s 00000000 103:05 7                         /a: b\n"
      "VmFlags: rd wr sh mr mw me ms gd";
  Mapping m;
  char* next = parse_mapping(text, m);
  EXPECT(next && m.attributes == (kLocked | kHugePages | kNotInForks | kMayWrite));
  EXPECT(m.swapped_kib == 12 && m.protection_key == 3);
  next = parse_mapping(next, m);
  EXPECT(m.swapped_kib == 0 && m.protection_key == 0);
  EXPECT(next && *next == 0 && m.attributes == (kGrowsDown | kMayWrite) && m.device == 0x10305);
  EXPECT(m.inode == 7 && !strcmp(m.path, "/a: b") && m.swapped_kib == 0);
  return 0;
}

static int foreign_text() {
  const char* wrong[] = {"", "12", "1000-", "2000-1000 rw-p 0 00:00 0", "1000-2000 rw",
                         "1000-2000 rw-p", "1000-2000 rw-p 00000000", "Size: 4 kB\n"};
  for (const char* line : wrong) {
    char text[64];
    strcpy(text, line);
    Mapping m;
    EXPECT(parse_mapping(text, m) == nullptr);
  }
  return 0;
}

static int own_mappings() {
  char* const text = read_mappings(Detail::kAttributes);
  EXPECT(text);
  u64 found = 0;
  Mapping m;
  for (char* next = text; *next; found++) {
    next = parse_mapping(next, m);
    EXPECT(next && m.start < m.end);
  }
  EXPECT(found > 10);
  free_mappings(text);
  return 0;
}

static int swapping() {
  EXPECT(count_swapped_out("nr_free_pages 12\npswpin 3\npswpout 40\nthp_swpout 2\n"
                           "zswpout 500\nswpout_zero 6000\nzswpwb 9\n") == 6542);
  EXPECT(count_swapped_out("nr_free_pages 12\npswpin 3\n") == kUnknown);
  EXPECT(count_swapped_out("") == kUnknown && count_swapped_out("pswpout 0\n") == 0);
  EXPECT(swapped_out() != kUnknown);
  Mapping swapped;
  swapped.swapped_kib = 4;
  note_swapping();
  EXPECT(may_hide_pages(swapped) == swap_in_use());
  return 0;
}

int main() {
  return plain_lines() || detailed_lines() || foreign_text() || own_mappings() || swapping();
}
