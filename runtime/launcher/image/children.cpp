// SPDX-License-Identifier: Apache-2.0
// The children of the process. A restart makes no processes again but helpers (helpers.cpp): what
// the application has started must have ended, or a checkpoint is refused.
#include "launcher/image/children.h"

#include "halves/layout.h"
#include "launcher/config.h"
#include "launcher/image/helpers.h"
#include "launcher/image/save.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u32 kChildCapacity = 256;
u32 first_children[kChildCapacity];
u32 first_child_count;

/// What follows a name in /proc/PID/task/TID/children: calls take(pid) for each child.
template <typename Take>
void each_child(u32 pid, Take take) {
  static char names[1 << 15], list[1 << 16];
  Text<64> path;
  path << "/proc/" << pid << "/task";
  const Result<u64> tasks =
      sys::open(path.data, sys::kReadOnly | sys::kDirectory | sys::kCloseOnExec);
  if (!tasks) return;
  for (;;) {
    const Result<u64> got = sys::call(SYS_getdents64, tasks.value, sys::arg(names), sizeof names);
    if (!got || got.value == 0) break;
    for (u64 at = 0; at < got.value; at += *reinterpret_cast<u16*>(names + at + 16)) {
      const char* tid = names + at + 19;  // struct linux_dirent64: d_reclen, d_type, d_name
      if (*tid < '0' || *tid > '9') continue;
      Text<96> children;
      children << path.data << "/" << tid << "/children";
      (void)sys::read_text(children.data, list, sizeof list);
      for (const char* p = list; *p;) {
        if (*p < '0' || *p > '9') p++;
        else take(u32(parse_decimal(p)));
      }
    }
  }
  (void)sys::close(int(tasks.value));
}

/// "pid (command)", and whether it has ended and only waits for wait(2).
bool describe_child(u32 pid, Message& out) {
  static char text[512];
  Text<64> path;
  path << "/proc/" << pid << "/stat";
  (void)sys::read_text(path.data, text, sizeof text);
  char* end = text;
  for (char* p = text; *p; p++)
    if (*p == ')') end = p;
  const bool ended = *end && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
  if (*end) end[1] = 0;
  out << "child process " << (text[0] ? text : "that has just ended");
  return ended;
}

/// Whether the lower half started it (Open MPI's orted, say): its environment tells.
bool is_of_lower_half(u32 pid) {
  static char text[1 << 18];
  Text<64> path;
  path << "/proc/" << pid << "/environ";
  const Result<u64> size = sys::read_text(path.data, text, sizeof text);
  for (u64 at = 0; size && at < size.value; at += text_length(text + at) + 1)
    if (text_equal(text + at, kLowerMark)) return true;
  return false;
}

}  // namespace

void note_first_children() {
  each_child(sys::getpid(), [](u32 child) {
    if (first_child_count < kChildCapacity) first_children[first_child_count++] = child;
  });
}

u32 list_children(u32 pid, u32* out, u32 capacity) {
  u32 count = 0;
  each_child(pid, [&](u32 child) {
    if (count < capacity) out[count++] = child;
  });
  return count;
}

bool is_own_child(u32 child) {
  for (u32 i = 0; i < first_child_count; i++)
    if (first_children[i] == child) return false;
  return !is_of_lower_half(child);
}

Status refuse_children(u32 pid, u32 writer, Message& why) {
  Status found = success();
  each_child(pid, [&](u32 child) {
    const bool ours = child == writer || is_old_writer(child) || !found;
    if (ours || !is_own_child(child) || note_helper(child)) return;
    const bool ended = describe_child(child, why);
    why << (ended ? " has ended, but the program has not waited for it"
                  : " runs and cannot be saved; take the checkpoint when it has ended");
    found = failure(sys::kEagain);
  });
  return found;
}

}  // namespace fermata::launch
