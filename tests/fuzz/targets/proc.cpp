// SPDX-License-Identifier: Apache-2.0
// Texts of /proc: maps, smaps and fdinfo. Kernels differ, and a path in maps is anybody's.
#include <string.h>

#include <string>

#include "bytes.h"
#include "files/fdinfo.cpp"
#include "memory/maps.cpp"

using namespace fermata;

namespace {

/// A copy with nothing behind its closing NUL, so that a step too far is noticed.
struct Copy {
  explicit Copy(const std::string& from) : text(new char[from.size() + 1]) {
    memcpy(text, from.c_str(), from.size() + 1);
  }
  ~Copy() { delete[] text; }
  char* text;
};

void read_maps(const std::string& text) {
  const Copy copy(text);
  memory::Mapping mapping;
  char* next = copy.text;
  while (next && *next) {
    char* const before = next;
    next = memory::parse_mapping(next, mapping);
    if (!next) break;
    REQUIRE(next > before && next <= copy.text + text.size());
    REQUIRE(mapping.end > mapping.start && mapping.path + strlen(mapping.path) <= next);
    (void)memory::is_saved(mapping);
  }
}

void read_info(const std::string& text) {
  using namespace files;
  const Copy copy(text);
  LockLine lock;
  WatchLine watch;
  MemberLine member;
  TimerLines timer;
  for (const char* line = copy.text; line && *line; line = next_line(line)) {
    if (parse_lock(line, lock) && lock.member_kind && lock.bytes)
      REQUIRE(lock.first + (lock.bytes - 1) >= lock.first);
    (void)parse_watch(line, watch);
    (void)parse_member(line, member);
  }
  (void)parse_timer(copy.text, timer);
  (void)find_field(copy.text, "eventfd-count:");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const u8* data, size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  const std::string text(all.c_str());  // up to the first NUL, as the kernel's texts are
  read_maps(text);
  read_info(text);
  return 0;
}
