// SPDX-License-Identifier: Apache-2.0
#include "memory/maps.h"

#include "base/text.h"
#include "halves/layout.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

constexpr u64 kFirstCapacity = 1 << 20, kHeadBytes = 16;
constexpr u64 kLowest = 0x10000;

u64 parse_device(const char*& p) {
  const u64 major = parse_hex(p);
  if (*p == ':') p++;
  const u64 minor = parse_hex(p);
  return (minor & 0xff) | major << 8 | (minor & ~u64(0xff)) << 12;  // the kernel's new_encode_dev
}

u64 parse_amount(const char* p) {
  while (*p == ' ' || *p == '\t') p++;
  return parse_decimal(p);
}

/// The line's end becomes NUL. Returns the next line.
char* end_line(char* p) {
  while (*p && *p != '\n') p++;
  if (*p == 0) return p;
  *p = 0;
  return p + 1;
}

}  // namespace

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
  out.device = parse_device(p);
  if (*p++ != ' ') return nullptr;
  out.inode = parse_decimal(p);
  while (*p == ' ') p++;
  out.path = p;
  out.attributes = 0;
  out.swapped_kib = out.protection_key = 0;
  // The lines of smaps that belong to this mapping begin with a capital letter.
  char* next = end_line(text + (p - text));
  while (*next >= 'A' && *next <= 'Z') {
    char* line = next;
    next = end_line(next);
    if (text_starts(line, "VmFlags:")) out.attributes = parse_vm_flags(line + 8);
    if (text_starts(line, "Swap:")) out.swapped_kib = parse_amount(line + 5);
    if (text_starts(line, "ProtectionKey:")) out.protection_key = parse_amount(line + 14);
  }
  return next;
}

// The buffer grows as needed and begins with its size: the program may have locked all memory to
// come, and then what is mapped is filled in at once.
char* read_mappings(Detail detail) {
  constexpr u64 kRoom = 1 << 16;
  const char* path = detail == Detail::kPlain ? "/proc/self/maps" : "/proc/self/smaps";
  u64 capacity = kFirstCapacity, size = kHeadBytes;
  Result<u64> map = sys::mmap(0, capacity, sys::kProtRead | sys::kProtWrite,
                              sys::kMapPrivate | sys::kMapAnonymous);
  const Result<u64> fd = sys::open(path, sys::kReadOnly | sys::kCloseOnExec);
  while (map && fd) {
    const Result<u64> got = sys::read(int(fd.value), reinterpret_cast<char*>(map.value) + size,
                                      capacity - 1 - size);
    if (!got || got.value == 0) break;
    size += got.value;
    if (capacity - size > kRoom) continue;
    const Result<u64> grown =
        sys::call(SYS_mremap, map.value, capacity, 2 * capacity, sys::kMremapMayMove);
    if (!grown) (void)sys::munmap(map.value, capacity);
    map = grown;
    capacity *= 2;
  }
  if (fd) (void)sys::close(int(fd.value));
  if (!map || !fd) return nullptr;
  *reinterpret_cast<u64*>(map.value) = capacity;
  return reinterpret_cast<char*>(map.value) + kHeadBytes;
}

void free_mappings(char* text) {
  const u64 map = sys::arg(text) - kHeadBytes;
  (void)sys::munmap(map, *reinterpret_cast<u64*>(map));
}

bool is_saved(const Mapping& mapping) {
  return mapping.start >= kLowest && mapping.end <= kUpperEnd;
}

}  // namespace fermata::memory
