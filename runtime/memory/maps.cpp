// SPDX-License-Identifier: Apache-2.0
#include "memory/maps.h"

#include "base/text.h"

namespace fermata::memory {

char* parse_mapping(char* text, Mapping& out) {
  const char* p = text;
  out.start = parse_hex(p);
  if (*p++ != '-') return nullptr;
  out.end = parse_hex(p);
  if (*p++ != ' ' || out.end <= out.start) return nullptr;
  for (int i = 0; i < 4; i++)
    if (p[i] == 0) return nullptr;
  out.read = p[0] == 'r';
  out.write = p[1] == 'w';
  out.execute = p[2] == 'x';
  out.shared = p[3] == 's';
  p += 4;
  if (*p++ != ' ') return nullptr;
  out.file_offset = parse_hex(p);
  if (*p++ != ' ') return nullptr;
  while (*p && *p != ' ') p++;  // device
  if (*p++ != ' ') return nullptr;
  out.inode = parse_decimal(p);
  while (*p == ' ') p++;
  out.path = p;
  while (*p && *p != '\n') p++;
  char* end = text + (p - text);
  if (*end == 0) return end;
  *end = 0;
  return end + 1;
}

}  // namespace fermata::memory
