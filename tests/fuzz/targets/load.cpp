// SPDX-License-Identifier: Apache-2.0
// Programs as the launcher maps them. Whatever the headers say, it ends with a message or maps
// within the range that it has reserved, and the bytes between the file's and the memory's end are
// zero.
#include <setjmp.h>
#include <string.h>

#include "bytes.h"
#include "launcher/load/elf.cpp"

using namespace fermata;
using namespace fermata::launch;

namespace {
jmp_buf given_up;
constexpr u64 kGuard = 1 << 20;
u64 reserved, reserved_bytes;
volatile u64 kept;  // so that reads are not optimised away
}  // namespace

namespace fermata::launch {

void die(const char* what, const char*, i32, const char* advice) {
  REQUIRE(what[0] && advice);
  longjmp(given_up, 1);
}

// Other mappings stand on both sides, as they do in a rank.
u64 place_lower(u64 bytes) {
  if (bytes > u64(1) << 40) die("the program is too large", "", 0, "");
  reserved_bytes = bytes + 2 * kGuard;
  void* const range = mmap(reinterpret_cast<void*>(kLowerBase), reserved_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(range != MAP_FAILED);
  reserved = u64(range);
  REQUIRE(munmap(reinterpret_cast<void*>(reserved + kGuard), bytes) == 0);
  return reserved + kGuard;
}

void rewrite_sites(int, u64, u64 address, u64 bytes) {
  REQUIRE(address >= reserved + kGuard && bytes <= reserved_bytes - 2 * kGuard);
}

}  // namespace fermata::launch

namespace {

void check_segment(const Elf64_Phdr& segment, const Mapped& mapped) {
  const u64 at = mapped.base + segment.p_vaddr;
  REQUIRE(at >= mapped.start && at + segment.p_memsz <= mapped.end);
  if (!(segment.p_flags & PF_R) || segment.p_memsz > 1 << 24) return;
  u64 sum = 0;
  for (u64 i = 0; i < segment.p_memsz; i += kPageBytes)
    sum += *reinterpret_cast<const volatile u8*>(at + i);
  kept = sum;
}

/// Segments that share pages lie as the last one says; these are only mapped.
bool are_apart(const File& file) {
  u64 end = 0;
  for (int i = 0; i < file.header.e_phnum; i++) {
    const Elf64_Phdr& segment = file.segments[i];
    if (segment.p_type != PT_LOAD) continue;
    if (page_floor(segment.p_vaddr) < end) return false;
    end = page_ceil(segment.p_vaddr + segment.p_memsz);
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  static fuzz::MemoryFile memory;
  static File file;
  memory.hold(data, size);
  file = {};
  file.fd = -1;
  file.path = memory.path();
  reserved_bytes = 0;
  // Only programs for any address: others would lie where the sanitizer has its tables.
  if (setjmp(given_up) == 0) {
    read_headers(file);
    static char name[4096];
    const char* interpreter = interpreter_path(file, name, sizeof name);
    REQUIRE(!interpreter || strlen(interpreter) < sizeof name);
    if (file.header.e_type == ET_DYN) {
      const Mapped mapped = map_image(file, Half::kLower, Role::kProgram);
      for (int i = 0; i < file.header.e_phnum && are_apart(file); i++)
        if (file.segments[i].p_type == PT_LOAD) check_segment(file.segments[i], mapped);
    }
    (void)header_address(file, 0);
  }
  if (file.fd >= 0) close(file.fd);
  if (reserved_bytes) munmap(reinterpret_cast<void*>(reserved), reserved_bytes);
  return 0;
}
