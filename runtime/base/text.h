// SPDX-License-Identifier: Apache-2.0
// Text without a libc: a fixed buffer that messages and paths are built in, and the few string
// functions that parsing /proc needs. Everything is truncated rather than overrun.
#pragma once

#include "base/types.h"

namespace fermata {

inline u64 text_length(const char* text) {
  u64 n = 0;
  while (text[n]) n++;
  return n;
}

inline bool text_equal(const char* a, const char* b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

inline bool text_starts(const char* text, const char* prefix) {
  while (*prefix)
    if (*text++ != *prefix++) return false;
  return true;
}

/// Takes the control characters but line feeds out of a text for people, those of UTF-8 as well
/// (0xc2 and 0x80 to 0x9f): others may have written it, and a terminal obeys what it is sent.
inline void take_out_control(char* text) {
  for (; *text; text++) {
    const u8 c = u8(*text), next = u8(text[1]);
    const bool is_pair = c == 0xc2 && next >= 0x80 && next < 0xa0;
    if ((c < ' ' && c != '\n') || c == 0x7f || is_pair) *text = '?';
    if (is_pair) *++text = '?';
  }
}

/// The last component of a path.
inline const char* base_name(const char* path) {
  const char* name = path;
  for (const char* p = path; *p; p++)
    if (*p == '/') name = p + 1;
  return name;
}

inline u64 parse_hex(const char*& p) {
  u64 value = 0;
  for (;; p++) {
    const char c = *p;
    if (c >= '0' && c <= '9') value = value * 16 + u64(c - '0');
    else if (c >= 'a' && c <= 'f') value = value * 16 + u64(c - 'a' + 10);
    else return value;
  }
}

inline u64 parse_decimal(const char*& p) {
  u64 value = 0;
  while (*p >= '0' && *p <= '9') value = value * 10 + u64(*p++ - '0');
  return value;
}

/// Whether a file of this name has been deleted and is kept for those who have it open: so does a
/// client of NFS (".nfs" and 24 hexadecimal digits), and libfuse (".fuse_hidden" and 16).
inline bool is_kept_name(const char* path) {
  constexpr const char *kNfs = ".nfs", *kFuse = ".fuse_hidden";
  const char* const name = base_name(path);
  const bool nfs = text_starts(name, kNfs);
  if (!nfs && !text_starts(name, kFuse)) return false;
  const char* const digits = name + text_length(nfs ? kNfs : kFuse);
  const char* end = digits;
  (void)parse_hex(end);
  return *end == 0 && end - digits == (nfs ? 24 : 16);
}

/// What follows `start` in a path if that is a whole number of its parts, else null.
inline const char* behind(const char* path, const char* start) {
  if (!text_starts(path, start)) return nullptr;
  const char* rest = path + text_length(start);
  return *rest == '/' || *rest == 0 ? rest : nullptr;
}

/// Copies a message. Of one that is too long the middle is left out, most often a part of a path:
/// it begins with what is wrong and ends with what to do.
[[gnu::noinline]] inline void shorten(char* to, u64 capacity, const char* message) {
  constexpr char kGap[] = " ... ";
  const u64 bytes = text_length(message);
  if (bytes < capacity) {
    __builtin_memcpy(to, message, bytes + 1);
    return;
  }
  const u64 kept = capacity - sizeof kGap, begin = kept / 2, end = kept - begin;
  __builtin_memcpy(to, message, begin);
  __builtin_memcpy(to + begin, kGap, sizeof kGap - 1);
  __builtin_memcpy(to + capacity - 1 - end, message + bytes - end, end + 1);
}

struct Hex {
  u64 value;
};

/// A NUL-terminated string of at most kCapacity - 1 bytes; what does not fit is dropped.
template <u64 kCapacity>
struct Text {
  char data[kCapacity] = {};
  u64 size = 0;

  Text& put(char c) {
    if (size + 1 < kCapacity) data[size++] = c, data[size] = 0;
    return *this;
  }
  Text& operator<<(const char* text) {
    while (*text) put(*text++);
    return *this;
  }
  Text& operator<<(u64 value) {
    char digits[20];
    int n = 0;
    do digits[n++] = char('0' + value % 10);
    while (value /= 10);
    while (n) put(digits[--n]);
    return *this;
  }
  Text& operator<<(i64 value) {
    if (value < 0) put('-');
    return *this << u64(value < 0 ? -value : value);
  }
  Text& operator<<(u32 value) { return *this << u64(value); }
  Text& operator<<(i32 value) { return *this << i64(value); }
  Text& operator<<(Hex hex) {
    *this << "0x";
    bool started = false;
    for (int shift = 60; shift >= 0; shift -= 4) {
      const u64 digit = hex.value >> shift & 15;
      started = started || digit || shift == 0;
      if (started) put("0123456789abcdef"[digit]);
    }
    return *this;
  }
};

using Path = Text<4096>;
using Message = Text<1024>;

}  // namespace fermata
