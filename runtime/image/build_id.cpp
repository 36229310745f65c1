// SPDX-License-Identifier: Apache-2.0
#include "image/build_id.h"

#include <elf.h>

#include "base/notes.h"
#include "sys/sys.h"

namespace fermata::image {
BuildId build_id(int fd) {
  BuildId key{};
  Elf64_Ehdr header;
  const Result<u64> got = sys::pread_full(fd, &header, sizeof header, 0);
  if (!got || got.value != sizeof header || header.e_phentsize != sizeof(Elf64_Phdr)) return key;
  for (u64 i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    u8 notes[kNotesMost];
    const u64 at = header.e_phoff + i * sizeof segment;
    const Result<u64> entry = sys::pread_full(fd, &segment, sizeof segment, at);
    if (at < header.e_phoff || !entry || entry.value != sizeof segment) break;
    if (segment.p_type != PT_NOTE) continue;
    const u64 bytes = segment.p_filesz < sizeof notes ? segment.p_filesz : sizeof notes;
    const Result<u64> there = sys::pread_full(fd, notes, bytes, segment.p_offset);
    const NoteData id = there ? find_build_id(notes, there.value) : NoteData{};
    if (!id.bytes) continue;
    key.size = id.bytes < sizeof key.bytes ? u32(id.bytes) : u32(sizeof key.bytes);
    __builtin_memcpy(key.bytes, id.data, key.size);
    return key;
  }
  return key;
}

void print_build_id(const BuildId& id, Text<48>& out) {
  for (u32 i = 0; i < id.size; i++)
    out.put("0123456789abcdef"[id.bytes[i] >> 4]).put("0123456789abcdef"[id.bytes[i] & 15]);
}

}  // namespace fermata::image
