// SPDX-License-Identifier: Apache-2.0
#include "image/build_id.h"

#include <elf.h>

#include "sys/sys.h"

namespace fermata::image {
namespace {

/// Looks for NT_GNU_BUILD_ID in one PT_NOTE segment.
bool find_build_id(const u8* notes, u64 bytes, BuildId& key) {
  u64 at = 0;
  while (at + sizeof(Elf64_Nhdr) <= bytes) {
    const Elf64_Nhdr* note = reinterpret_cast<const Elf64_Nhdr*>(notes + at);
    const u64 name = at + sizeof *note;
    const u64 data = name + ((u64(note->n_namesz) + 3) & ~u64(3));
    const u64 next = data + ((u64(note->n_descsz) + 3) & ~u64(3));
    if (next > bytes) return false;
    const bool is_gnu = note->n_namesz == 4 && __builtin_memcmp(notes + name, "GNU", 4) == 0;
    if (is_gnu && note->n_type == NT_GNU_BUILD_ID && note->n_descsz > 0) {
      key.size = note->n_descsz < sizeof key.bytes ? note->n_descsz : u32(sizeof key.bytes);
      __builtin_memcpy(key.bytes, notes + data, key.size);
      return true;
    }
    at = next;
  }
  return false;
}

}  // namespace

BuildId build_id(int fd) {
  BuildId key{};
  Elf64_Ehdr header;
  const Result<u64> got = sys::pread_full(fd, &header, sizeof header, 0);
  if (!got || got.value != sizeof header || header.e_phentsize != sizeof(Elf64_Phdr)) return key;
  for (u32 i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    u8 notes[1024];
    (void)sys::pread_full(fd, &segment, sizeof segment, header.e_phoff + i * sizeof segment);
    if (segment.p_type != PT_NOTE) continue;
    const u64 bytes = segment.p_filesz < sizeof notes ? segment.p_filesz : sizeof notes;
    if (!sys::pread_full(fd, notes, bytes, segment.p_offset)) continue;
    if (find_build_id(notes, bytes, key)) return key;
  }
  return key;
}

void print_build_id(const BuildId& id, Text<48>& out) {
  for (u32 i = 0; i < id.size; i++)
    out.put("0123456789abcdef"[id.bytes[i] >> 4]).put("0123456789abcdef"[id.bytes[i] & 15]);
}

}  // namespace fermata::image
