// SPDX-License-Identifier: Apache-2.0
// Limits of memory that others have set: those of control groups, by which batch systems and
// containers keep a job to what it has asked for. A job that continues while its image is written
// is given a copy of every page that it writes to, up to all it has; where the limit has no room
// for that, the kernel would kill a process of the job.
// Source: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst (Linux 6.1).
#include "launcher/image/memory_limit.h"

#include "base/text.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

// The files of one version of control groups, below the directory of a group.
struct Version {
  const char* root;
  const char *limit, *usage;
  // In memory.stat: what fork(2) would have copied, and what the kernel gives back when asked to.
  const char *anonymous, *inactive, *active;
};
constexpr Version kVersions[] = {
    {"/sys/fs/cgroup", "memory.max", "memory.current", "anon", "inactive_file", "active_file"},
    {"/sys/fs/cgroup/unified", "memory.max", "memory.current", "anon", "inactive_file",
     "active_file"},
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_rss",
     "total_inactive_file", "total_active_file"},
};
constexpr u64 kStatBytes = 8192;
// What making writers takes: their page tables, which map what the ranks map, and the kernel's and
// their own first pages. Before a writer has volunteered the kernel may take a rank as well.
constexpr u64 kPagesPerTable = 512, kFirstBytes = 4 << 20;

/// The number that a file of a group holds; `none` if there is no such file, or another word in it.
u64 number_in(const Path& group, const char* name, u64 none) {
  Path path;
  path << group.data << "/" << name;
  char text[32] = {};
  (void)sys::read_text(path.data, text, sizeof text);
  if (*text < '0' || *text > '9') return none;
  const char* at = text;
  return parse_decimal(at);
}

/// The number behind a word at the beginning of a line; 0 if there is none.
u64 number_of(const char* text, const char* word) {
  const u64 length = text_length(word);
  for (const char* line = text; *line;) {
    if (text_starts(line, word) && line[length] == ' ') {
      const char* at = line + length + 1;
      return parse_decimal(at);
    }
    while (*line && *line != '\n') line++;
    if (*line) line++;
  }
  return 0;
}

Room lesser(Room one, Room other) { return one < other ? one : other; }

Room room_in(const Version& version, const Path& group) {
  static char stat[kStatBytes];  // the agent's thread alone asks
  const u64 limit = number_in(group, version.limit, ~u64(0));
  const u64 usage = number_in(group, version.usage, 0);
  if (limit == ~u64(0) || !usage) return Room::kForCopies;
  Path path;
  path << group.data << "/memory.stat";
  (void)sys::read_text(path.data, stat, sizeof stat);
  const u64 cache = number_of(stat, version.inactive) + number_of(stat, version.active);
  const u64 used = usage > cache ? usage - cache : 0;
  const u64 anonymous = number_of(stat, version.anonymous);
  if (used + anonymous / kPagesPerTable + kFirstBytes > limit) return Room::kNone;
  return used + anonymous > limit ? Room::kForWriter : Room::kForCopies;
}

/// The same of all groups above. One that is not seen here, as in a container, is passed over.
Room room_upwards(const Version& version, const char* group, u64 length) {
  Room least = Room::kForCopies;
  for (;;) {
    Path path;
    path << version.root;
    for (u64 i = 0; i < length; i++) path.put(group[i]);
    least = lesser(least, room_in(version, path));
    if (!length) return least;
    while (length && group[--length] != '/') continue;
  }
}

}  // namespace

Room room_for_saving() {
  Room least = Room::kForCopies;
  static char groups[4096];
  (void)sys::read_text("/proc/self/cgroup", groups, sizeof groups);
  // Lines of the form ID:CONTROLLERS:GROUP; of version 2 there are no controllers.
  for (const char* line = groups; *line;) {
    const char* at = line;
    while (*at && *at != ':') at++;
    const bool second = text_starts(at, "::"), first = text_starts(at, ":memory:");
    const char* group = at + (second ? 2 : first ? 8 : 0);
    while (*line && *line != '\n') line++;
    const u64 length = group < line && (second || first) ? u64(line - group) : 0;
    for (const Version& version : kVersions) {
      const bool of_first = text_equal(version.limit, "memory.limit_in_bytes");
      const bool is_root = length == 1;
      if (of_first ? first : second)
        least = lesser(least, room_upwards(version, group, is_root ? 0 : length));
    }
    if (*line) line++;
  }
  return least;
}

}  // namespace fermata::launch
