// SPDX-License-Identifier: Apache-2.0
// The upper half's vdso: a small ELF image of ours at a fixed upper address whose functions jump
// through a table to the kernel's live vdso. It is saved like all upper memory; a restart only
// fills the table anew. Without any vdso clock_gettime costs a system call.
#include <elf.h>

#include "launcher/launcher.h"
#include "sys/sys.h"

extern "C" const char fermata_vdso_image[], fermata_vdso_image_end[];

namespace fermata::launch {
namespace {

constexpr const char* kFunctions[] = {"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time",
                                      "__vdso_getcpu", "__vdso_clock_getres"};

/// The address of a function in the kernel's vdso, 0 if it has none of that name.
u64 live_function(u64 image, const char* name) {
  const Elf64_Ehdr* header = reinterpret_cast<const Elf64_Ehdr*>(image);
  const Elf64_Phdr* segments = reinterpret_cast<const Elf64_Phdr*>(image + header->e_phoff);
  u64 bias = image;
  const Elf64_Dyn* dynamic = nullptr;
  for (int i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type == PT_LOAD) bias = image + segments[i].p_offset - segments[i].p_vaddr;
    if (segments[i].p_type == PT_DYNAMIC)
      dynamic = reinterpret_cast<const Elf64_Dyn*>(image + segments[i].p_offset);
  }
  if (!dynamic) return 0;
  u64 strings = 0, symbols = 0;
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    if (dynamic->d_tag == DT_STRTAB) strings = bias + dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_SYMTAB) symbols = bias + dynamic->d_un.d_ptr;
  }
  // The symbol table of every kernel's vdso ends where its string table begins.
  for (u64 at = symbols; at + sizeof(Elf64_Sym) <= strings; at += sizeof(Elf64_Sym)) {
    const Elf64_Sym* symbol = reinterpret_cast<const Elf64_Sym*>(at);
    if (symbol->st_shndx != SHN_UNDEF &&
        text_equal(reinterpret_cast<const char*>(strings + symbol->st_name), name))
      return bias + symbol->st_value;
  }
  return 0;
}

}  // namespace

u64 carry_address, carried_address, wait_address, waited_address, handler_address;

void refresh_vdso() {
  carry_address = live_function(kUpperVdso, "__vdso_fermata_carry");
  carried_address = live_function(kUpperVdso, "__vdso_fermata_carried");
  wait_address = live_function(kUpperVdso, "__vdso_fermata_wait");
  waited_address = live_function(kUpperVdso, "__vdso_fermata_waited");
  handler_address = live_function(kUpperVdso, "__vdso_fermata_handler");
  const u64 live = auxv_value(AT_SYSINFO_EHDR);
  u64* table = reinterpret_cast<u64*>(kVdsoTable);
  for (u64 i = 0; i < sizeof kFunctions / sizeof *kFunctions; i++)
    table[i] = live ? live_function(live, kFunctions[i]) : 0;
  table[sizeof kFunctions / sizeof *kFunctions] = table[0];  // for the function in its place
  if (clocks_shifted()) table[0] = live_function(kUpperVdso, "__vdso_fermata_shifted");
}

u64 install_vdso() {
  const u64 image_bytes = u64(fermata_vdso_image_end - fermata_vdso_image);
  const int anonymous = sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixedNoReplace;
  const Result<u64> map =
      sys::mmap(kUpperVdso, kUpperVdsoBytes, sys::kProtRead | sys::kProtWrite, anonymous);
  if (!map || image_bytes > kTrampoline - kUpperVdso)
    die("cannot map the vdso", "upper window", map.error, "is something else mapped there?");
  __builtin_memcpy(reinterpret_cast<void*>(kUpperVdso), fermata_vdso_image, image_bytes);
  __builtin_memcpy(reinterpret_cast<void*>(kTrampoline), arch::kSigreturnTrampoline,
                   sizeof arch::kSigreturnTrampoline);
  (void)sys::mprotect(kUpperVdso, kVdsoTable - kUpperVdso, sys::kProtRead | sys::kProtExec);
  refresh_vdso();
  return kUpperVdso;
}

}  // namespace fermata::launch
