// SPDX-License-Identifier: Apache-2.0
// Loading a guest as the kernel's execve would, but into a window of our choice. Two details are
// easy to miss: ld.so expects the rest of its last bss page to be zero (load_elf_binary clears it),
// and code of the lower half must be rewritten to GS before it is executable.
#include "launcher/load/elf.h"

#include <elf.h>

#include "base/text.h"
#include "halves/layout.h"
#include "launcher/config.h"
#include "launcher/load/placement.h"
#include "launcher/patch/sites.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

struct File {
  const char* path;
  int fd;
  u64 bytes;
  Elf64_Ehdr header;
  Elf64_Phdr segments[64];
};

void read_headers(File& file) {
  const Result<u64> fd = sys::open_regular(file.path);
  if (!fd)
    die("cannot open the program", file.path, fd.error, "check the path and its permissions");
  file.fd = int(fd.value);
  sys::KernelStat info;
  const Result<u64> known = sys::fstat(file.fd, &info);
  if (!known) die("cannot look at the program", file.path, known.error, "damaged file system?");
  file.bytes = u64(info.size);
  const Result<u64> got = sys::pread_full(file.fd, &file.header, sizeof file.header, 0);
  const Elf64_Ehdr& header = file.header;
  if (!got || got.value != sizeof header || __builtin_memcmp(header.e_ident, ELFMAG, SELFMAG))
    die("not an ELF program", file.path, got.error, "give the program itself, not a script");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    die("not an x86-64 program", file.path, 0, "Fermata runs 64-bit x86 programs only");
  if (header.e_type != ET_DYN && header.e_type != ET_EXEC)
    die("not an executable", file.path, 0, "give an executable program");
  if (header.e_phnum == 0 || header.e_phnum > 64 || header.e_phentsize != sizeof(Elf64_Phdr))
    die("unusual program headers", file.path, 0, "the file may be damaged");
  const u64 bytes = header.e_phnum * sizeof(Elf64_Phdr);
  const Result<u64> table = sys::pread_full(file.fd, file.segments, bytes, header.e_phoff);
  if (!table || table.value != bytes)
    die("cannot read the program headers", file.path, table.error, "the file may be damaged");
}

int segment_prot(const Elf64_Phdr& segment) {
  return (segment.p_flags & PF_R ? sys::kProtRead : 0) |
         (segment.p_flags & PF_W ? sys::kProtWrite : 0) |
         (segment.p_flags & PF_X ? sys::kProtExec : 0);
}

void check(const Result<u64>& result, const char* what, const char* path) {
  if (!result) die(what, path, result.error, "see `fermata doctor`; memory may be short");
}

void map_segment(const File& file, const Elf64_Phdr& segment, u64 base, Half half) {
  const u64 start = page_floor(base + segment.p_vaddr);
  const u64 file_end = base + segment.p_vaddr + segment.p_filesz;
  const u64 memory_end = base + segment.p_vaddr + segment.p_memsz;
  const int prot = segment_prot(segment);
  const bool rewrite = half == Half::kLower && (prot & sys::kProtExec);
  if (segment.p_filesz) {
    const u64 offset = page_floor(segment.p_offset);
    const u64 bytes = page_ceil(file_end) - start;
    const int first = rewrite ? sys::kProtRead | sys::kProtWrite : prot;
    check(sys::mmap(start, bytes, first, sys::kMapPrivate | sys::kMapFixed, file.fd, offset),
          "cannot map a segment", file.path);
    if (rewrite) {
      rewrite_sites(file.fd, offset, start, bytes);
      check(sys::mprotect(start, bytes, prot), "cannot protect a segment", file.path);
    }
  }
  if (memory_end <= file_end) return;
  const u64 zero_start = segment.p_filesz ? page_ceil(file_end) : start;
  if (page_ceil(memory_end) > zero_start)
    check(sys::mmap(zero_start, page_ceil(memory_end) - zero_start, prot,
                    sys::kMapPrivate | sys::kMapFixed | sys::kMapAnonymous),
          "cannot map bss", file.path);
  if (segment.p_filesz && (prot & sys::kProtWrite))
    __builtin_memset(reinterpret_cast<void*>(file_end), 0, zero_start - file_end);
}

struct Mapped {
  u64 base, start, end;
  bool holds(u64 at, u64 bytes) const { return at >= start && at < end && bytes <= end - at; }
};

/// Where the upper half's programs go: an application, and its ld.so apart from it.
enum class Role : u32 { kProgram, kLoader };

/// A file that was cut short has segments behind its end, whose memory raises SIGBUS.
bool fits(const File& file, const Elf64_Phdr& segment) {
  constexpr u64 kAddressEnd = u64(1) << 47;
  if (segment.p_vaddr >= kAddressEnd || segment.p_memsz >= kAddressEnd) return false;
  if (segment.p_filesz == 0) return true;  // bss alone: its offset means nothing
  return segment.p_filesz <= segment.p_memsz && segment.p_offset <= file.bytes &&
         segment.p_filesz <= file.bytes - segment.p_offset &&
         segment.p_vaddr % kPageBytes == segment.p_offset % kPageBytes;
}

Mapped map_image(const File& file, Half half, Role role) {
  u64 low = ~u64(0), high = 0;
  for (int i = 0; i < file.header.e_phnum; i++) {
    const Elf64_Phdr& segment = file.segments[i];
    if (segment.p_type != PT_LOAD) continue;
    if (!fits(file, segment))
      die("a segment lies outside the program's file", file.path, 0,
          "the file is damaged; install it again");
    if (segment.p_vaddr < low) low = segment.p_vaddr;
    if (segment.p_vaddr + segment.p_memsz > high) high = segment.p_vaddr + segment.p_memsz;
  }
  if (high <= low) die("nothing to load", file.path, 0, "the file may be damaged");
  low = page_floor(low);
  const u64 bytes = page_ceil(high) - low;
  const bool fixed = file.header.e_type == ET_EXEC;
  u64 start = low;
  if (!fixed && half == Half::kUpper) {
    start = role == Role::kLoader ? kUpperLoader : kUpperProgram;
  } else if (!fixed) {
    start = place_lower(bytes);
  }
  check(sys::mmap(start, bytes, 0,
                  sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve |
                      sys::kMapFixedNoReplace),
        "the program's addresses are taken", file.path);
  const u64 base = start - low;
  for (int i = 0; i < file.header.e_phnum; i++)
    if (file.segments[i].p_type == PT_LOAD) map_segment(file, file.segments[i], base, half);
  return {base, start, start + bytes};
}

u64 header_address(const File& file, u64 base) {
  for (int i = 0; i < file.header.e_phnum; i++) {
    const Elf64_Phdr& segment = file.segments[i];
    if (segment.p_type == PT_LOAD && segment.p_offset <= file.header.e_phoff &&
        file.header.e_phoff < segment.p_offset + segment.p_filesz)
      return base + segment.p_vaddr + (file.header.e_phoff - segment.p_offset);
  }
  return 0;
}

/// Whether the program's table of dynamic strings has this one: names of what it needs and gives.
bool has_string(const File& file, const Mapped& image, const char* wanted) {
  for (int i = 0; i < file.header.e_phnum; i++) {
    if (file.segments[i].p_type != PT_DYNAMIC) continue;
    u64 table = 0, bytes = 0;
    const u64 dynamic = image.base + file.segments[i].p_vaddr;
    const Elf64_Dyn* entry = reinterpret_cast<const Elf64_Dyn*>(dynamic);
    if (!image.holds(dynamic, file.segments[i].p_memsz)) continue;
    const u64 count = file.segments[i].p_memsz / sizeof *entry;
    for (u64 k = 0; k < count && entry->d_tag != DT_NULL; k++, entry++) {
      if (entry->d_tag == DT_STRTAB) table = image.base + entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRSZ) bytes = entry->d_un.d_val;
    }
    const char* const strings = reinterpret_cast<const char*>(table);
    if (!bytes || !image.holds(table, bytes) || strings[bytes - 1]) continue;
    for (u64 at = 0; at < bytes; at += text_length(strings + at) + 1)
      if (text_equal(strings + at, wanted)) return true;
  }
  return false;
}

/// Their shadow memory has fixed places, in which our windows lie. That of AddressSanitizer has
/// others.
void refuse_sanitizers(const File& file, const Mapped& image) {
  constexpr const char* kAdvice = "build it without -fsanitize to run it under Fermata";
  if (has_string(file, image, "__tsan_init"))
    die("programs built with ThreadSanitizer cannot run here", file.path, 0, kAdvice);
  if (has_string(file, image, "__msan_init"))
    die("programs built with MemorySanitizer cannot run here", file.path, 0, kAdvice);
}

const char* interpreter_path(const File& file, char* buffer, u64 capacity) {
  for (int i = 0; i < file.header.e_phnum; i++) {
    const Elf64_Phdr& segment = file.segments[i];
    if (segment.p_type != PT_INTERP || segment.p_filesz >= capacity) continue;
    const Result<u64> got = sys::pread_full(file.fd, buffer, segment.p_filesz, segment.p_offset);
    if (!got || got.value != segment.p_filesz)
      die("cannot read the interpreter's name", file.path, got.error, "damaged file?");
    buffer[segment.p_filesz] = 0;
    return buffer;
  }
  return nullptr;
}

}  // namespace

Program load_program(const char* path, Half half) {
  static File file, interpreter;  // too large for a guest's stack; used before there are threads
  static char name[4096];
  file.path = path;
  read_headers(file);
  const Mapped image = map_image(file, half, Role::kProgram);
  if (half == Half::kUpper) refuse_sanitizers(file, image);
  Program program;
  program.base = image.base;
  program.start = image.start;
  program.end = image.end;
  program.entry = image.base + file.header.e_entry;
  program.headers = header_address(file, image.base);
  program.header_count = file.header.e_phnum;
  program.jump = program.entry;
  interpreter.path = interpreter_path(file, name, sizeof name);
  if (!interpreter.path)
    die("the program is static", path, 0, "Fermata needs a dynamically linked MPI program");
  read_headers(interpreter);
  const Mapped loader = map_image(interpreter, half, Role::kLoader);
  program.interpreter_base = loader.base;
  program.jump = loader.base + interpreter.header.e_entry;
  (void)sys::close(file.fd);
  (void)sys::close(interpreter.fd);
  return program;
}

}  // namespace fermata::launch
