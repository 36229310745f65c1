// SPDX-License-Identifier: Apache-2.0
// Whose files are whose. Descriptors are numbers of the whole process, so the boundary tells them
// apart as it does memory: a descriptor that the lower half makes is moved above lower_first, out
// of the application's way (which keeps its native numbers, and finds them free after a restart),
// and remembered here. Everything else that is open belongs to the application.
#include "launcher/process/descriptors.h"

#include "files/describe.h"
#include "files/registry.h"
#include "halves/layout.h"
#include "launcher/boundary/guest.h"
#include "launcher/config.h"
#include "launcher/process/limits.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

constexpr int kCapacity = int(kDescriptorsTold);
constexpr int kLowerFirst = 512;
int lower_first = kLowerFirst;
u64 lower_set[kCapacity / 64];
u32 owner_pid;  // a vfork child shares this memory but has descriptors of its own
int streams[3] = {-1, -1, -1};
u16 moved_to[kCapacity];  // on a restart, by what it was before: 0 = nothing was there

void mark(int fd, bool is_lower) {
  if (fd < 0 || fd >= kCapacity) return;
  const u64 bit = u64(1) << (fd % 64);
  if (is_lower) __atomic_or_fetch(&lower_set[fd / 64], bit, __ATOMIC_RELAXED);
  else __atomic_and_fetch(&lower_set[fd / 64], ~bit, __ATOMIC_RELAXED);
}

/// Moves a fresh descriptor up and marks it. Where there is no room it stays where it is.
int move_up(int fd) {
  const Result<u64> flags = sys::fcntl(fd, sys::kGetFdFlags);
  const int command = flags && (flags.value & sys::kFdCloexec) ? sys::kDupFdCloexec : sys::kDupFd;
  Result<u64> moved = sys::fcntl(fd, command, lower_first);
  // The application may have lowered its limit.
  if (!moved) moved = sys::fcntl(fd, command, soft_descriptors() / 2);
  if (moved) (void)sys::close(fd);
  const int result = moved ? int(moved.value) : fd;
  mark(result, true);
  return result;
}

}  // namespace

bool is_lower_descriptor(int fd) {
  return fd >= 0 && fd < kCapacity && (lower_set[fd / 64] >> (fd % 64) & 1);
}

void place_lower_descriptors() {
  const u64 half = soft_descriptors() / 2;
  if (half < u64(kLowerFirst)) lower_first = int(half);
}

int first_lower_descriptor() { return lower_first; }

void begin_lower_descriptors(u64 first) { lower_first = int(first); }

void note_ambient_descriptors() {
  owner_pid = sys::getpid();
  for (int stream = 0; stream <= 2; stream++) {
    // Standard input from a file is the application's own: it has a place in that file.
    if (stream == 0 && files::is_regular(0)) continue;
    const Result<u64> kept = sys::fcntl(stream, sys::kDupFdCloexec, lower_first);
    streams[stream] = kept ? int(kept.value) : -1;
  }
  sys::message_stream = streams[2];
  // Pipes, sockets and devices beyond the standard streams come from the job's launcher (Hydra
  // leaves a dozen open); they go up with the lower half's own. A file was opened by the user, and
  // so was all that a program before this one (exec.cpp) has handed on. On a restart the program
  // has what the image says, and whatever is open now only takes its numbers.
  for (int fd = 3; fd < lower_first && config.first[0] == 0; fd++) {
    sys::KernelStat info;
    if (!sys::fstat(fd, &info)) continue;
    const u32 type = info.mode & sys::kTypeMask;
    if (config.restore[0]) moved_to[fd] = u16(move_up(fd));
    else if (type != sys::kTypeRegular && type != sys::kTypeDirectory) (void)move_up(fd);
  }
  for (int fd = lower_first; fd < kCapacity; fd++)
    if (sys::fcntl(fd, sys::kGetFdFlags)) mark(fd, true);
}

u64 trap_lower_descriptor(u64 number, const u64 (&a)[6]) {
  if (sys::getpid() != owner_pid) return pass_on(number, a);
  if (number == SYS_close) mark(int(a[0]), false);
  const i64 result = i64(pass_on(number, a));
  if (result < 0 || number == SYS_close) return u64(result);
  switch (number) {
    case SYS_pipe:
    case SYS_pipe2:
    case SYS_socketpair: {
      int* pair = reinterpret_cast<int*>(number == SYS_socketpair ? a[3] : a[0]);
      pair[0] = move_up(pair[0]);
      pair[1] = move_up(pair[1]);
      return u64(result);
    }
    case SYS_dup2:
    case SYS_dup3:  // the caller named the number
      mark(int(result), result > 2);
      return u64(result);
    case SYS_fcntl:
      if (a[2] >= u64(lower_first)) {
        mark(int(result), true);
        return u64(result);
      }
      break;
    case SYS_signalfd:
    case SYS_signalfd4:
      if (i32(a[0]) >= 0) return u64(result);  // changed an existing one
      break;
    default: break;
  }
  return u64(i64(move_up(int(result))));
}

void hide_descriptor(int fd, bool hidden) { mark(fd, hidden); }

const int* ambient_streams() { return streams; }

int inherited_descriptor(int fd) {
  return fd >= 0 && fd < kCapacity && moved_to[fd] ? moved_to[fd] : -1;
}

u64 trap_upper_socketpair(const u64 (&a)[6]) {
  const i64 result = i64(pass_on(SYS_socketpair, a));
  const int* pair = reinterpret_cast<const int*>(a[3]);
  if (result == 0 && sys::getpid() == owner_pid) files::note_pair(pair[0], pair[1]);
  return u64(result);
}

u64 trap_upper_watch(const u64 (&a)[6]) {
  const i64 result = i64(pass_on(SYS_inotify_add_watch, a));
  if (result >= 0 && sys::getpid() == owner_pid)
    files::note_watch(int(a[0]), u64(result), reinterpret_cast<const char*>(a[1]));
  return u64(result);
}

u32 own_pid() { return owner_pid; }

bool is_own_process() { return sys::getpid() == owner_pid; }

void close_lower_on_exec() {
  for (int fd = 0; fd < kCapacity; fd++)
    if (is_lower_descriptor(fd)) (void)sys::fcntl(fd, sys::kSetFdFlags, sys::kFdCloexec);
}

void close_lower_descriptors(bool (*may_stay)(int fd)) {
  for (int fd = 0; fd < kCapacity; fd++)
    if (is_lower_descriptor(fd) && fd != sys::message_stream && !may_stay(fd))
      (void)sys::close(fd);
}

void adopt_process() { owner_pid = sys::getpid(); }

}  // namespace fermata::launch
