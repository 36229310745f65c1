// SPDX-License-Identifier: Apache-2.0
// The kernel's account of a descriptor, /proc/PID/fdinfo/FD: lines of `name: values`. Format:
// Documentation/filesystems/proc.rst, 3.8. Freestanding; the parsers are pure.
#pragma once

#include "base/result.h"
#include "base/types.h"

namespace fermata::files {

struct LockLine {
  u32 member_kind;  // MemberKind; 0: a lease, or what makes no sense: not to be saved
  bool exclusive;
  u64 first, bytes;  // bytes 0: to the end of the file
};
struct WatchLine {
  u64 number, inode, device, mask;
};
struct MemberLine {
  u64 fd, events, data;
  u64 inode;  // of the file watched; 0: this kernel does not say
};
struct TimerLines {
  u64 clock, ticks, value_ns, interval_ns;
  bool absolute;
};

/// Reads the whole text of /proc/PID/fdinfo/FD into `buffer`, NUL-terminated. pid 0: this process.
/// Errors: errno; EFBIG (27) if it does not fit.
Status read_fdinfo(u32 pid, int fd, char* buffer, u64 capacity);

/// What follows `name` at the start of a line, blanks skipped; null if no line begins so.
const char* find_field(const char* text, const char* name);
/// The next line after `line`, null at the end.
const char* next_line(const char* line);

/// Each returns false if the line is not of its kind.
bool parse_lock(const char* line, LockLine& out);      // "lock: 1: FLOCK ADVISORY WRITE ..."
bool parse_watch(const char* line, WatchLine& out);    // "inotify wd:1 ino:2 sdev:3 mask:4 ..."
bool parse_member(const char* line, MemberLine& out);  // "tfd: 5 events: 19 data: 5 ..."
bool parse_timer(const char* text, TimerLines& out);   // the whole text

}  // namespace fermata::files
