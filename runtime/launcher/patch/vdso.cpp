// SPDX-License-Identifier: Apache-2.0
// The upper half's vdso: a small ELF image of ours at a fixed upper address whose functions call
// the kernel's live vdso through a table. It is saved like all upper memory; a restart only fills
// the table anew. Without any vdso clock_gettime costs a system call.
//
// A thread that is saved inside the kernel's vdso, or in a signal handler that has interrupted it
// there, continues at an address of the old vdso. The new one may be another kernel's, and if it
// were the same, the thread would hold half of the old machine's clock in its registers. So nothing
// continues : the call begins again. We move the kernel's vdso to a place of ours that depends on
// the number of restarts, so that no two lives of a rank have the same. After a restart all places
// of earlier lives are a sled, instructions that do nothing up to a jump to the code in our image
// that finds the call on the stack and begins it again (arch/x86_64/vdso.S).
//
//     kVdsoTop  jump
//     -1        sled, once the vdso of the first life          <- kVdsoBytes each
//     -2        sled, once that of the life after one restart
//     -3        the kernel's vdso now; its data ([vvar]) lie before it
//
// A kernel that seals its vdso (CONFIG_MSEAL_SYSTEM_MAPPINGS) does not let us: then the upper half
// makes system calls.
#include "launcher/patch/vdso.h"

#include <elf.h>

#include "arch/x86_64/context.h"
#include "base/text.h"
#include "launcher/config.h"
#include "memory/maps.h"
#include "sys/check.h"
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

constexpr u64 place_after(u32 restarts) { return kVdsoTop - (restarts + 1) * kVdsoBytes; }

u64 live_vdso;         // where it is
bool is_placed;        // where nothing else will ever be
u64 begin_again_address;

struct Part {
  u64 start, bytes;
};
constexpr u32 kMostParts = 8;

/// The mappings that belong together: the kernel's vdso and, right before it, its data.
u32 find_parts(Part (&parts)[kMostParts]) {
  char* const text = memory::read_mappings(memory::Detail::kPlain);
  if (!text) return 0;
  u32 count = 0;
  memory::Mapping mapping;
  for (char* at = text; (at = memory::parse_mapping(at, mapping));) {
    const bool is_code = text_equal(mapping.path, "[vdso]");
    if (!is_code && !text_starts(mapping.path, "[vvar")) continue;
    const bool follows = count && parts[count - 1].start + parts[count - 1].bytes == mapping.start;
    if (!follows) count = 0;
    if (count == kMostParts) break;
    parts[count++] = {mapping.start, mapping.bytes()};
    if (is_code) break;
  }
  memory::free_mappings(text);
  const bool is_whole = count && parts[count - 1].start == live_vdso;
  return is_whole && parts[count - 1].bytes <= kVdsoBytes ? count : 0;
}

Result<u64> move(u64 from, u64 bytes, u64 to) {
  return sys::call(SYS_mremap, from, bytes, bytes, sys::kMremapMayMove | sys::kMremapFixed, to);
}

void fill_table(bool clocks_shifted) {
  u64* const table = reinterpret_cast<u64*>(kVdsoTable);
  for (u64 i = 0; i < sizeof kFunctions / sizeof *kFunctions; i++)
    table[i] = is_placed ? live_function(live_vdso, kFunctions[i]) : 0;
  table[sizeof kFunctions / sizeof *kFunctions] = table[0];  // for the function in its place
  if (clocks_shifted) table[0] = live_function(kUpperVdso, "__vdso_fermata_shifted");
}

/// Older images have these names as well: they stay as they are.
void find_own_code() {
  restart_address = live_function(kUpperVdso, "__vdso_fermata_carry");
  restarted_address = live_function(kUpperVdso, "__vdso_fermata_carried");
  wait_address = live_function(kUpperVdso, "__vdso_fermata_wait");
  waited_address = live_function(kUpperVdso, "__vdso_fermata_waited");
  handler_address = live_function(kUpperVdso, "__vdso_fermata_handler");
  noting_address = live_function(kUpperVdso, "__vdso_fermata_noting");
  noting_told_address = live_function(kUpperVdso, "__vdso_fermata_noting_told");
  begin_again_address = live_function(kUpperVdso, "__vdso_fermata_again");
}

/// From the place after `last` restarts up to that of the first life.
void make_sled(u32 last) {
  constexpr u8 kDoNothing = 0x90;
  constexpr u8 kJump[] = {0xff, 0x25, 0, 0, 0, 0};  // to the address that follows
  const u64 start = place_after(last), bytes = kVdsoTop + kPageBytes - start;
  const Result<u64> map =
      sys::mmap(start, bytes, sys::kProtRead | sys::kProtWrite,
                sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixedNoReplace);
  if (!map) die("cannot map a place where the vdso was", "restart", map.error, "memory is short");
  __builtin_memset(reinterpret_cast<void*>(start), kDoNothing, kVdsoTop - start);
  u8* const top = reinterpret_cast<u8*>(kVdsoTop);
  __builtin_memcpy(top, kJump, sizeof kJump);
  __builtin_memcpy(top + sizeof kJump, &begin_again_address, sizeof begin_again_address);
  (void)sys::mprotect(start, bytes, sys::kProtRead | sys::kProtExec);
}

}  // namespace

u64 restart_address, restarted_address, wait_address, waited_address, handler_address;
u64 noting_address, noting_told_address;

void place_vdso(u32 restarts) {
  live_vdso = auxv_value(AT_SYSINFO_EHDR);
  Part parts[kMostParts];
  const u32 count = live_vdso ? find_parts(parts) : 0;
  const u64 distance = place_after(restarts) - live_vdso;
  for (u32 i = 0; i < count; i++) {
    if (move(parts[i].start, parts[i].bytes, parts[i].start + distance)) continue;
    while (i-- > 0)  // as they were: they work only together
      if (!move(parts[i].start + distance, parts[i].bytes, parts[i].start)) live_vdso = 0;
    return;
  }
  if (count) live_vdso += distance;
  is_placed = count != 0;
}

u64 lower_vdso() { return live_vdso; }

void renew_vdso(u32 restarts, bool clocks_shifted) {
  find_own_code();
  fill_table(clocks_shifted);
  make_sled(restarts - 1);
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
  find_own_code();
  FERMATA_CHECK(restart_address && restarted_address && wait_address && waited_address &&
                    handler_address && begin_again_address,
                "the vdso of the upper half has all its functions");
  fill_table(false);
  return kUpperVdso;
}

}  // namespace fermata::launch
