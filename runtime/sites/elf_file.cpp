// SPDX-License-Identifier: Apache-2.0
// Reading an ELF file: which bytes are code, where .eh_frame is, and the file's build-id.
//
// Section headers, when present, say which part of an executable segment is code: linkers without
// -z separate-code put the ELF header, string tables and constants into the same segment. Without
// section headers the whole segment counts as code, and the finder is as strict with it.
#include "sites/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/notes.h"

namespace fermata::sites {

ElfFile::~ElfFile() {
  if (data_) munmap(const_cast<u8*>(data_), bytes_);
}

std::string ElfFile::open(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::string("cannot open: ") + strerror(errno);
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < i64(sizeof(Elf64_Ehdr))) {
    close(fd);
    return "not a regular file of at least one ELF header";
  }
  void* map = mmap(nullptr, u64(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (map == MAP_FAILED) return std::string("cannot map: ") + strerror(errno);
  data_ = static_cast<const u8*>(map);
  bytes_ = u64(st.st_size);
  return parse();
}

const u8* ElfFile::at(u64 address, u64* left) const {
  for (const Segment& s : segments_) {
    if (address < s.address || address - s.address >= s.bytes) continue;
    *left = s.bytes - (address - s.address);
    return data_ + s.offset + (address - s.address);
  }
  *left = 0;
  return nullptr;
}

std::string ElfFile::parse() {
  const Elf64_Ehdr* head = reinterpret_cast<const Elf64_Ehdr*>(data_);
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return "not an ELF file";
  if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB ||
      head->e_machine != EM_X86_64)
    return "not a 64-bit x86-64 ELF file";
  if (head->e_type != ET_DYN && head->e_type != ET_EXEC)
    return "neither a shared object nor an executable";
  if (std::string error = parse_segments(); !error.empty()) return error;
  if (std::string error = parse_sections(); !error.empty()) return error;
  if (code_.empty()) {
    for (const Segment& s : segments_)
      if (s.executable) code_.push_back({s.address, s.address + s.bytes, s.offset, "segment"});
  }
  const auto overlaps = [&](u64 CodeRange::* first) {
    std::sort(code_.begin(), code_.end(),
              [&](const CodeRange& a, const CodeRange& b) { return a.*first < b.*first; });
    for (size_t i = 1; i < code_.size(); i++)
      if (code_[i].*first - code_[i - 1].*first < code_[i - 1].end - code_[i - 1].begin)
        return true;
    return false;
  };
  // What a byte is, is said once, by its place in the file.
  if (overlaps(&CodeRange::file_offset)) return "executable sections share bytes of the file";
  if (overlaps(&CodeRange::begin)) return "executable sections overlap";
  return "";
}

std::string ElfFile::parse_segments() {
  const Elf64_Ehdr* head = reinterpret_cast<const Elf64_Ehdr*>(data_);
  if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phoff % 8 != 0 ||
      !inside(head->e_phoff, u64(head->e_phnum) * sizeof(Elf64_Phdr)))
    return "program headers lie outside the file";
  const Elf64_Phdr* table = reinterpret_cast<const Elf64_Phdr*>(data_ + head->e_phoff);
  u64 frame_header = 0;
  for (u32 i = 0; i < head->e_phnum; i++) {
    const Elf64_Phdr& p = table[i];
    if (p.p_type != PT_LOAD && p.p_type != PT_NOTE && p.p_type != PT_GNU_EH_FRAME) continue;
    if (!inside(p.p_offset, p.p_filesz) || p.p_vaddr + p.p_filesz < p.p_vaddr)
      return "a segment lies outside the file";
    if (p.p_type == PT_LOAD)
      segments_.push_back({p.p_vaddr, p.p_offset, p.p_filesz, (p.p_flags & PF_X) != 0});
    if (p.p_type == PT_NOTE) parse_notes(p.p_offset, p.p_filesz);
    if (p.p_type == PT_GNU_EH_FRAME) frame_header = p.p_vaddr;
  }
  if (frame_header) parse_frame_header(frame_header);
  return "";
}

void ElfFile::parse_notes(u64 offset, u64 bytes) {
  if (!build_id_.empty()) return;
  const NoteData id = find_build_id(data_ + offset, bytes);
  build_id_.assign(id.data, id.data + std::min<u64>(id.bytes, 20));
}

void ElfFile::parse_frame_header(u64 address) {
  u64 left;
  const u8* p = at(address, &left);
  // Version 1 with a pc-relative signed 32-bit pointer to .eh_frame is what every linker writes;
  // for anything else the section header of .eh_frame decides.
  if (!p || left < 8 || p[0] != 1 || p[1] != 0x1b) return;
  i32 relative;
  memcpy(&relative, p + 4, 4);
  frame_address_ = address + 4 + u64(i64(relative));
  if (!at(frame_address_, &frame_bytes_)) frame_address_ = 0;
}

std::string ElfFile::parse_sections() {
  const Elf64_Ehdr* head = reinterpret_cast<const Elf64_Ehdr*>(data_);
  if (head->e_shoff == 0 || head->e_shnum == 0) return "";
  if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff % 8 != 0 ||
      !inside(head->e_shoff, u64(head->e_shnum) * sizeof(Elf64_Shdr)))
    return "section headers lie outside the file";
  const Elf64_Shdr* table = reinterpret_cast<const Elf64_Shdr*>(data_ + head->e_shoff);
  const auto name_of = [&](const Elf64_Shdr& s) -> std::string {
    if (head->e_shstrndx >= head->e_shnum) return "?";
    const Elf64_Shdr& names = table[head->e_shstrndx];
    if (!inside(names.sh_offset, names.sh_size) || s.sh_name >= names.sh_size) return "?";
    const char* text = reinterpret_cast<const char*>(data_ + names.sh_offset + s.sh_name);
    return std::string(text, strnlen(text, names.sh_size - s.sh_name));
  };
  for (u32 i = 0; i < head->e_shnum; i++) {
    const Elf64_Shdr& s = table[i];
    if (!(s.sh_flags & SHF_ALLOC) || s.sh_type == SHT_NOBITS || s.sh_size == 0) continue;
    if (!inside(s.sh_offset, s.sh_size)) return "section " + name_of(s) + " lies outside the file";
    if (s.sh_flags & SHF_EXECINSTR) {
      u64 left;
      if (at(s.sh_addr, &left) != data_ + s.sh_offset || left < s.sh_size)
        return "executable section " + name_of(s) + " is not inside a loaded segment";
      code_.push_back({s.sh_addr, s.sh_addr + s.sh_size, s.sh_offset, name_of(s)});
    } else if (name_of(s) == ".eh_frame" && (!frame_address_ || frame_address_ == s.sh_addr)) {
      frame_address_ = s.sh_addr;
      frame_bytes_ = s.sh_size;
    }
  }
  return "";
}

/// Calls take(entry) for each entry of the sections of two types. Sections that lie outside the
/// file are left out; parse_sections() has checked the table of sections itself.
template <typename Entry, typename Take>
void ElfFile::each_entry(u32 type_a, u32 type_b, Take take) const {
  const Elf64_Ehdr* head = reinterpret_cast<const Elf64_Ehdr*>(data_);
  if (head->e_shoff == 0) return;
  const Elf64_Shdr* table = reinterpret_cast<const Elf64_Shdr*>(data_ + head->e_shoff);
  for (u32 i = 0; i < head->e_shnum; i++) {
    const Elf64_Shdr& s = table[i];
    if ((s.sh_type != type_a && s.sh_type != type_b) || !inside(s.sh_offset, s.sh_size)) continue;
    for (u64 at = 0; at + sizeof(Entry) <= s.sh_size; at += sizeof(Entry)) {
      Entry entry;
      memcpy(&entry, data_ + s.sh_offset + at, sizeof entry);
      take(entry);
    }
  }
}

bool ElfFile::has_sections() const {
  const Elf64_Ehdr* head = reinterpret_cast<const Elf64_Ehdr*>(data_);
  return head->e_shoff != 0 && head->e_shnum != 0;
}

std::vector<u64> ElfFile::function_symbols() const {
  std::vector<u64> out;
  each_entry<Elf64_Sym>(SHT_DYNSYM, SHT_SYMTAB, [&](const Elf64_Sym& symbol) {
    const u32 type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC))
      out.push_back(symbol.st_value);
  });
  return out;
}

/// Packed relative relocations: the addresses stand where they are to be written. An even word
/// names one place, an odd one has a bit for each of the next 63. Source: System V ABI, SHT_RELR.
void ElfFile::add_packed(std::vector<u64>* out) const {
  constexpr u32 kPacked = 19;  // SHT_RELR, which older elf.h lack
  const auto take = [&](u64 place) {
    u64 left, value;
    const u8* bytes = at(place, &left);
    if (!bytes || left < sizeof value) return;
    memcpy(&value, bytes, sizeof value);
    out->push_back(value);
  };
  u64 next = 0;
  each_entry<u64>(kPacked, kPacked, [&](u64 word) {
    if (word % 2 == 0) {
      take(word);
      next = word + 8;
      return;
    }
    for (u64 bit = 1; bit < 64; bit++)
      if (word >> bit & 1) take(next + 8 * (bit - 1));
    next += 8 * 63;
  });
}

std::vector<u64> ElfFile::named_addresses() const {
  std::vector<u64> out;
  each_entry<Elf64_Sym>(SHT_DYNSYM, SHT_SYMTAB, [&](const Elf64_Sym& symbol) {
    const u32 type = ELF64_ST_TYPE(symbol.st_info);
    if (symbol.st_shndx != SHN_UNDEF && (type == STT_NOTYPE || type == STT_OBJECT))
      out.push_back(symbol.st_value);
  });
  each_entry<Elf64_Rela>(SHT_RELA, SHT_RELA, [&](const Elf64_Rela& relocation) {
    const u64 type = ELF64_R_TYPE(relocation.r_info);
    if (type == R_X86_64_RELATIVE || type == R_X86_64_IRELATIVE)
      out.push_back(u64(relocation.r_addend));
  });
  add_packed(&out);
  return out;
}

}  // namespace fermata::sites
