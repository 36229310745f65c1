// SPDX-License-Identifier: Apache-2.0
// Paths below /proc that name a process or thread. The kernel knows nothing of ids that the
// application has kept over a restart, so open(2) and readlink(2) of the upper half trap in a
// restarted process, and a path with such an id is looked up under the kernel's.
#include "launcher/ids/proc_paths.h"

#include "base/text.h"
#include "halves/layout.h"
#include "launcher/boundary/guest.h"
#include "launcher/ids/process_ids.h"
#include "launcher/ids/thread_ids.h"
#include "launcher/load/fronts.h"
#include "launcher/load/program.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

/// The text at `at` as far as it can be read, one byte after the other.
class Reader {
 public:
  explicit Reader(u64 address) : at_(address) {}

  /// The next byte; 0 at the end and where nothing can be read.
  char peek() {
    if (page_floor(at_) != page_) {
      if (!is_readable(at_, 1)) return 0;
      page_ = page_floor(at_);
    }
    return *reinterpret_cast<const char*>(at_);
  }
  void skip() { at_++; }
  bool take(const char* text) {
    for (; *text; text++, skip())
      if (peek() != *text) return false;
    return true;
  }
  bool take_number(u32& out) {
    u64 value = 0;
    bool any = false;
    for (char c = peek(); c >= '0' && c <= '9' && value < u64(1) << 32; skip(), c = peek()) {
      value = value * 10 + u64(c - '0');
      any = true;
    }
    out = u32(value);
    const char end = peek();
    return any && value < u64(1) << 32 && (end == 0 || end == '/');
  }

 private:
  u64 at_, page_ = ~u64(0);
};

struct Names {
  u32 process = 0;  // 0: self
  u32 thread = 0;   // 0: none
};

/// Whether a path begins with /proc/ID, /proc/self/task/ID or /proc/ID/task/ID.
bool parse(Reader& reader, Names& out) {
  if (!reader.take("/proc/")) return false;
  if (reader.peek() == 's') {
    if (!reader.take("self/task/")) return false;
    return reader.take_number(out.thread);
  }
  if (!reader.take_number(out.process)) return false;
  Reader further = reader;
  u32 thread = 0;
  if (!further.take("/task/") || !further.take_number(thread)) return true;
  out.thread = thread;
  reader = further;
  return true;
}

[[gnu::noinline]] u64 pass_translated(u64 number, const u64 (&arguments)[6], u32 path_at,
                                      const Names& names, Reader rest) {
  Path path;
  path << "/proc/";
  if (names.process) path << kernel_process(names.process);
  else path << "self";
  if (names.thread) path << "/task/" << kernel_tid(names.thread);
  for (char c = rest.peek(); c; rest.skip(), c = rest.peek()) path.put(c);
  u64 a[6];
  __builtin_memcpy(a, arguments, sizeof a);
  a[path_at] = sys::arg(path.data);
  return pass_on(number, a);
}

/// Whether the path names what the kernel knows under another id. If so, makes the call.
bool make_by_kernel_ids(u64 number, const u64 (&a)[6], u32 path_at, u64& result) {
  Reader reader(a[path_at]);
  Names names;
  if (!ids_differ() || !parse(reader, names)) return false;
  const bool same = kernel_process(names.process) == names.process &&
                    kernel_tid(names.thread) == names.thread;
  if (same) return false;
  result = pass_translated(number, a, path_at, names, reader);
  return true;
}

u64 answer_link(const u64 (&a)[6], u32 path_at, const char* text) {
  const u64 room = a[path_at + 2], length = text_length(text);
  const u64 bytes = length < room ? length : room;
  __builtin_memcpy(reinterpret_cast<void*>(a[path_at + 1]), text, bytes);
  return bytes;
}

/// Whether a path is /proc/ID/exe of this process, as the application knows or the kernel does.
bool is_own_program(const char* path) {
  if (text_equal(path, "/proc/self/exe") || text_equal(path, "/proc/thread-self/exe")) return true;
  if (!text_starts(path, "/proc/")) return false;
  const u32 own = sys::getpid();
  const u32 ids[] = {own, known_process(own)};
  for (const u32 pid : ids) {
    Text<48> by_pid;
    by_pid << "/proc/" << pid << "/exe";
    if (text_equal(path, by_pid.data)) return true;
  }
  return false;
}

}  // namespace

u64 trap_upper_open(u64 number, const u64 (&a)[6]) {
  u64 result;
  if (make_by_kernel_ids(number, a, number == SYS_openat, result)) return result;
  return trap_loader_open(number, a);
}

/// /proc/self/exe is the launcher; the application asks for itself (ld.so does, for $ORIGIN).
u64 trap_upper_readlink(u64 number, const u64 (&a)[6]) {
  const u32 path_at = number == SYS_readlinkat;
  u64 result;
  const bool made = make_by_kernel_ids(number, a, path_at, result);
  if (!made) result = pass_on(number, a);
  if (i64(result) <= 0) return result;  // also says that path and buffer can be read and written
  const char* const path = reinterpret_cast<const char*>(a[path_at]);
  if (is_own_program(path)) return answer_link(a, path_at, executable());
  if (!ids_differ() || !text_starts(path, "/proc/")) return result;
  const bool process = text_equal(path, "/proc/self");
  if (!process && !text_equal(path, "/proc/thread-self")) return result;
  Text<48> own;
  own << known_process(sys::getpid());
  if (!process) own << "/task/" << known_thread(sys::gettid());
  return answer_link(a, path_at, own.data);
}

}  // namespace fermata::launch
