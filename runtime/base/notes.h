// SPDX-License-Identifier: Apache-2.0
// The GNU build-id among the notes of an ELF file. Who writes an identity down and who looks for it
// read it here, so that they agree; the control plane's reader, storage/build_id.rs, does the same.
#pragma once

#include <elf.h>

#include "base/types.h"

namespace fermata {

inline constexpr u64 kNotesMost = 1024;  // of a PT_NOTE segment, this much is looked at

struct NoteData {
  const u8* data = nullptr;
  u64 bytes = 0;  // 0: there is none
};

/// Looks through the first kNotesMost bytes of a PT_NOTE segment, which may be cut anywhere.
/// Source: ELF gABI, chapter 5, note section; sizes are padded to four bytes here as everywhere.
inline NoteData find_build_id(const u8* notes, u64 bytes) {
  if (bytes > kNotesMost) bytes = kNotesMost;
  u64 at = 0;
  while (at + sizeof(Elf64_Nhdr) <= bytes) {
    Elf64_Nhdr note;
    __builtin_memcpy(&note, notes + at, sizeof note);
    const u64 name = at + sizeof note;
    const u64 data = name + ((u64(note.n_namesz) + 3) & ~u64(3));
    if (data + note.n_descsz > bytes) return {};
    const bool is_gnu = note.n_namesz == 4 && __builtin_memcmp(notes + name, "GNU", 4) == 0;
    if (is_gnu && note.n_type == NT_GNU_BUILD_ID && note.n_descsz > 0)
      return {notes + data, note.n_descsz};
    at = data + ((u64(note.n_descsz) + 3) & ~u64(3));
  }
  return {};
}

}  // namespace fermata
