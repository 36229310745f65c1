// SPDX-License-Identifier: Apache-2.0
#include "files/fdinfo.h"

#include "base/text.h"
#include "files/kinds.h"
#include "sys/sys.h"

namespace fermata::files {
namespace {

void skip_blanks(const char*& p) {
  while (*p == ' ' || *p == '\t') p++;
}

/// Moves behind `word` if it stands here (after blanks).
bool take(const char*& p, const char* word) {
  skip_blanks(p);
  if (!text_starts(p, word)) return false;
  p += text_length(word);
  skip_blanks(p);
  return true;
}

void skip_word(const char*& p) {
  while (*p && *p != ' ' && *p != '\t' && *p != '\n') p++;
  skip_blanks(p);
}

/// "(seconds, nanoseconds)"
bool take_time(const char* p, u64& ns) {
  if (!p || !take(p, "(")) return false;
  ns = parse_decimal(p) * 1'000'000'000;
  if (!take(p, ",")) return false;
  ns += parse_decimal(p);
  return *p == ')';
}

}  // namespace

Status read_fdinfo(u32 pid, int fd, char* buffer, u64 capacity) {
  Text<64> path;
  if (pid) path << "/proc/" << pid << "/fdinfo/" << fd;
  else path << "/proc/self/fdinfo/" << fd;
  const Result<u64> size = sys::read_text(path.data, buffer, capacity);
  if (!size) return failure(size.error);
  return size.value == capacity - 1 ? failure(sys::kEfbig) : success();
}

const char* next_line(const char* line) {
  while (*line && *line != '\n') line++;
  return *line && line[1] ? line + 1 : nullptr;
}

const char* find_field(const char* text, const char* name) {
  for (const char* line = text; line && *line; line = next_line(line)) {
    if (!text_starts(line, name)) continue;
    line += text_length(name);
    skip_blanks(line);
    return line;
  }
  return nullptr;
}

bool parse_lock(const char* line, LockLine& out) {
  if (!take(line, "lock:")) return false;
  (void)parse_decimal(line);
  if (!take(line, ":")) return false;
  out.member_kind = text_starts(line, "FLOCK")    ? u32(kFlock)
                    : text_starts(line, "POSIX")  ? u32(kPosixLock)
                    : text_starts(line, "OFDLCK") ? u32(kDescriptionLock)
                                                  : 0;
  skip_word(line);
  skip_word(line);  // ADVISORY
  out.exclusive = text_starts(line, "WRITE");
  skip_word(line);
  skip_word(line);  // pid
  skip_word(line);  // device:inode
  out.first = parse_decimal(line);
  skip_blanks(line);
  out.bytes = 0;
  if (text_starts(line, "EOF")) return true;
  const u64 last = parse_decimal(line);
  if (last < out.first) out.member_kind = 0;
  out.bytes = last - out.first + 1;
  return true;
}

bool parse_watch(const char* line, WatchLine& out) {
  if (!take(line, "inotify") || !take(line, "wd:")) return false;
  out.number = parse_hex(line);
  if (!take(line, "ino:")) return false;
  out.inode = parse_hex(line);
  if (!take(line, "sdev:")) return false;
  out.device = parse_hex(line);
  if (!take(line, "mask:")) return false;
  out.mask = parse_hex(line);
  return true;
}

bool parse_member(const char* line, MemberLine& out) {
  if (!take(line, "tfd:")) return false;
  out.fd = parse_decimal(line);
  if (!take(line, "events:")) return false;
  out.events = parse_hex(line);
  if (!take(line, "data:")) return false;
  out.data = parse_hex(line);
  out.inode = 0;
  if (take(line, "pos:")) {
    skip_word(line);
    if (take(line, "ino:")) out.inode = parse_hex(line);
  }
  return true;
}

bool parse_timer(const char* text, TimerLines& out) {
  const char* clock = find_field(text, "clockid:");
  const char* ticks = find_field(text, "ticks:");
  const char* flags = find_field(text, "settime flags:");
  if (!clock || !ticks || !flags) return false;
  out.clock = parse_decimal(clock);
  out.ticks = parse_decimal(ticks);
  out.absolute = flags[0] == '0' && (flags[1] == '1' || flags[1] == '3');  // TFD_TIMER_ABSTIME
  return take_time(find_field(text, "it_value:"), out.value_ns) &&
         take_time(find_field(text, "it_interval:"), out.interval_ns);
}

}  // namespace fermata::files
