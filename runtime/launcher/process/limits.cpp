// SPDX-License-Identifier: Apache-2.0
// What a process is beside memory, threads and files: its name, the program it runs, its resource
// limits, its children.
#include "launcher/launcher.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr u64 kSetName = 15;  // prctl
constexpr u32 kLimits = 16, kFiles = 7 /* RLIMIT_NOFILE */, kStack = 3 /* RLIMIT_STACK */;
constexpr const char* kLimitNames[kLimits] = {
    "CPU",     "FSIZE", "DATA",  "STACK",      "CORE",     "RSS",  "NPROC",  "NOFILE",
    "MEMLOCK", "AS",    "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"};

Path executable_path;
u64 first_limits[2 * kLimits];  // what this process was started with
u32 own_limits;                 // set by the application before a restart or an exec
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
    const Result<u64> got = sys::call(SYS_getdents64, tasks.value, sys::word(names), sizeof names);
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

Text<2048> first_ids;  // who this process was started as

/// The lines of /proc/PID/task/TID/status that tell as whom a thread runs.
void read_ids(u32 pid, u32 tid, Text<2048>& out) {
  constexpr const char* kNames[] = {"Uid:",    "Gid:",    "Groups:", "CapInh:",
                                    "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"};
  static char text[1 << 16];
  Text<64> path;
  path << "/proc/" << pid << "/task/" << tid << "/status";
  out = {};
  (void)sys::read_text(path.data, text, sizeof text);
  const char* line = text;
  while (*line) {
    bool wanted = false;
    for (const char* name : kNames) wanted = wanted || text_starts(line, name);
    for (; *line && *line != '\n'; line++)
      if (wanted) out.put(*line);
    if (*line) line++;
    if (wanted) out.put('\n');
  }
}

}  // namespace

Status refuse_other_identity(u32 pid, Message& why) {
  for (const Thread& thread : threads) {
    if (!stands(thread)) continue;
    static Text<2048> ids;
    read_ids(pid, thread.tid, ids);
    if (text_equal(ids.data, first_ids.data)) continue;
    why << "thread " << thread.id << " has changed who it runs as (user, group or capabilities): "
        << "a restart would undo that";
    return failure(sys::kEperm);
  }
  return success();
}

void note_identity() {
  note_scheduling();
  read_ids(sys::getpid(), sys::gettid(), first_ids);
  for (u32 i = 0; i < kLimits; i++)
    (void)sys::call(SYS_prlimit64, 0, i, 0, sys::word(&first_limits[2 * i]));
  const char* inherited = config.limits;
  const u32 chosen = u32(parse_decimal(inherited));
  own_limits = chosen & ((1u << kLimits) - 1);
  note_settings(chosen >> kLimits);
}

void note_first_children() {
  each_child(sys::getpid(), [](u32 child) {
    if (first_child_count < kChildCapacity) first_children[first_child_count++] = child;
  });
}

void name_process(const char* path, const char* name) {
  executable_path = Path();
  const Result<u64> file = sys::open_regular(path);
  Text<64> link;
  if (file) link << "/proc/self/fd/" << file.value;
  if (!file || !sys::readlink(link.data, executable_path.data, sizeof executable_path.data))
    executable_path << path;
  if (file) (void)sys::close(int(file.value));
  (void)sys::call(SYS_prctl, kSetName, sys::word(name));
}

const char* executable() { return executable_path.data; }

u32 changed_for_exec() {
  u64 unused[2 * kLimits];
  u32 changed = 0;
  save_limits(unused, changed, 0);
  return changed | changed_settings() << kLimits;
}

void save_limits(u64 (&out)[32], u32& changed, u32 pid) {
  changed = own_limits;
  for (u32 i = 0; i < kLimits; i++) {
    (void)sys::call(SYS_prlimit64, pid, i, 0, sys::word(&out[2 * i]));
    if (out[2 * i] != first_limits[2 * i] || out[2 * i + 1] != first_limits[2 * i + 1])
      changed |= 1u << i;
  }
}

u64 soft_descriptors() {
  u64 limit[2] = {0, 0};
  (void)sys::call(SYS_prlimit64, 0, kFiles, 0, sys::word(limit));
  return limit[0];
}

u64 most_descriptors() { return first_limits[2 * kFiles + 1]; }

u64 soft_descriptors(const u64 (&saved)[32], u32 changed) {
  const u64 most = most_descriptors();
  u64 soft = first_limits[2 * kFiles];
  if ((changed >> kFiles & 1) && saved[2 * kFiles] > soft) soft = saved[2 * kFiles];
  return soft < most ? soft : most;
}

void allow_descriptors(u64 count) {
  u64 limit[2] = {count, first_limits[2 * kFiles + 1]};
  if (count <= first_limits[2 * kFiles]) return;
  if (limit[0] > limit[1]) limit[0] = limit[1];
  (void)sys::call(SYS_prlimit64, 0, kFiles, sys::word(limit), 0);
}

void restore_limits(const u64 (&saved)[32], u32 changed) {
  own_limits = changed;
  (void)sys::call(SYS_prlimit64, 0, kFiles, sys::word(&first_limits[2 * kFiles]), 0);
  // A program that was given a large stack may have come to need it.
  const bool larger = saved[2 * kStack] > first_limits[2 * kStack];
  for (u32 i = 0; i < kLimits; i++) {
    if (!(changed >> i & 1) && !(i == kStack && larger)) continue;
    u64 here[2] = {0, 0};
    (void)sys::call(SYS_prlimit64, 0, i, 0, sys::word(here));
    u64 wanted[2] = {saved[2 * i], saved[2 * i + 1]};
    for (u64& value : wanted)
      if (value > here[1]) value = here[1];
    (void)sys::call(SYS_prlimit64, 0, i, sys::word(wanted), 0);
    if (wanted[0] >= saved[2 * i]) continue;
    Message note;
    note << "fermata: the program had the limit " << kLimitNames[i] << " at " << saved[2 * i]
         << "; here at most " << wanted[0] << " is allowed\n";
    sys::say(note.data);
  }
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
