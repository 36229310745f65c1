// SPDX-License-Identifier: Apache-2.0
// A reader of .eh_frame that wants one thing only: the range [pc_begin, pc_begin + pc_range) of
// every FDE. Call frame instructions are skipped.
//
// The whole section is walked instead of the binary search table of .eh_frame_hdr: the table names
// only the beginnings, may be absent, and would hide an FDE that a linker left out of it.
// Source: Linux Standard Base 5.0, chapter 10.6 (exception frames); DWARF 4, section 6.4.1.
#include "sites/frames.h"

#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <map>

namespace fermata::sites {
namespace {

constexpr u8 kOmit = 0xff;

/// A cursor over checked bytes. After the first overrun `good` stays false and reads return 0.
struct Cursor {
  const u8* p;
  const u8* end;
  bool good = true;

  template <typename T>
  T take() {
    T value{};
    if (u64(end - p) < sizeof(T)) return good = false, value;
    memcpy(&value, p, sizeof(T));
    p += sizeof(T);
    return value;
  }
  u64 uleb() {
    u64 value = 0;
    for (u32 shift = 0; shift < 64; shift += 7) {
      const u8 byte = take<u8>();
      value |= u64(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return value;
    }
    good = false;
    return 0;
  }
};

/// Decodes one pointer of DWARF encoding `encoding` whose bytes lie at address `here`.
u64 take_pointer(Cursor& c, u8 encoding, u64 here) {
  u64 value = 0;
  switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c: value = c.take<u64>(); break;
    case 0x02: value = c.take<u16>(); break;
    case 0x03: value = c.take<u32>(); break;
    case 0x0a: value = u64(i64(c.take<i16>())); break;
    case 0x0b: value = u64(i64(c.take<i32>())); break;
    default: c.good = false; return 0;
  }
  if ((encoding & 0x70) == 0x10) value += here;  // pc-relative
  else if ((encoding & 0x70) != 0x00) c.good = false;
  return value;
}

/// Returns the encoding of pc_begin that this CIE prescribes, or kOmit when it cannot be read.
u8 cie_encoding(Cursor c) {
  const u8 version = c.take<u8>();
  if (version != 1 && version != 3) return kOmit;
  const char* augmentation = reinterpret_cast<const char*>(c.p);
  while (c.good && c.take<u8>() != 0) {
  }
  if (!c.good) return kOmit;
  if (augmentation[0] == 0) return 0x00;
  if (augmentation[0] != 'z') return kOmit;
  c.uleb();                                    // code alignment
  c.uleb();                                    // data alignment; only skipped, the sign is moot
  if (version == 1) c.take<u8>(); else c.uleb();  // return address register
  c.uleb();                                    // augmentation length
  u8 result = 0x00;
  for (const char* a = augmentation + 1; *a && c.good; a++) {
    if (*a == 'R') result = c.take<u8>();
    else if (*a == 'L') c.take<u8>();
    else if (*a == 'P') {
      const u8 encoding = c.take<u8>();
      (void)take_pointer(c, encoding & 0x0f, 0);
    } else if (*a != 'S' && *a != 'B') return kOmit;
  }
  return c.good ? result : kOmit;
}

std::string bad(const char* what, u64 address) {
  char text[128];
  snprintf(text, sizeof text, ".eh_frame: %s at address 0x%llx", what,
           static_cast<unsigned long long>(address));
  return text;
}

}  // namespace

std::string read_frames(const ElfFile& file, std::vector<FunctionRange>* out) {
  if (!file.frame_address()) return "";
  u64 left;
  const u8* base = file.at(file.frame_address(), &left);
  if (!base) return ".eh_frame lies outside the file";
  const u8* const end = base + std::min(left, file.frame_bytes());
  std::map<const u8*, u8> encodings;  // CIE -> encoding of pc_begin
  for (const u8* p = base; p + 4 <= end;) {
    const u64 here = file.frame_address() + u64(p - base);
    u32 length;
    memcpy(&length, p, 4);
    if (length == 0) break;  // the terminator
    if (length == 0xffffffff || length < 4 || u64(end - p) - 4 < length)
      return bad("entry of impossible length", here);
    const u8* id_at = p + 4;
    const u8* next = id_at + length;
    u32 id;
    memcpy(&id, id_at, 4);
    if (id == 0) {
      encodings[p] = cie_encoding({id_at + 4, next});
    } else {
      const auto cie = u64(id_at - base) >= id ? encodings.find(id_at - id) : encodings.end();
      if (cie == encodings.end()) return bad("FDE without its CIE", here);
      if (cie->second == kOmit) return bad("CIE in an unknown form for the FDE", here);
      Cursor c{id_at + 4, next};
      const u64 begin = take_pointer(c, cie->second, here + 8);
      const u64 range = take_pointer(c, cie->second & 0x0f, 0);
      if (!c.good || begin + range < begin) return bad("FDE with an unreadable range", here);
      if (range) out->push_back({begin, begin + range});
    }
    p = next;
  }
  std::sort(out->begin(), out->end(), [](const FunctionRange& a, const FunctionRange& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  out->erase(std::unique(out->begin(), out->end(),
                         [](const FunctionRange& a, const FunctionRange& b) {
                           return a.begin == b.begin && a.end == b.end;
                         }),
             out->end());
  return "";
}

}  // namespace fermata::sites
