// SPDX-License-Identifier: Apache-2.0
// Descriptors without a file: eventfd, timerfd, signalfd, epoll, inotify. The kernel tells their
// state in fdinfo; what inotify watches, the registry knows by name.
#include "files/fdinfo.h"
#include "files/registry.h"
#include "files/restore.h"
#include "files/save.h"

namespace fermata::files {
namespace {

constexpr u64 kNsPerSecond = 1'000'000'000;
struct TimerSpec {  // struct itimerspec
  sys::TimeSpec interval, value;
};
constexpr sys::TimeSpec to_time(u64 ns) {
  return {i64(ns / kNsPerSecond), i64(ns % kNsPerSecond)};
}

/// Whether a read takes one at a time (EFD_SEMAPHORE). Kernels before 6.5 do not say; then it is
/// tried out and put back. Nobody sees that: the application stands still.
bool is_semaphore(const char* text, int fd, u64 count) {
  const char* said = find_field(text, "eventfd-semaphore:");
  if (said) return *said != '0';
  const u64 two = 2, one = 1;
  u64 taken = 0;
  if (count < 2) (void)sys::write(fd, &two, 8);
  if (!sys::read(fd, &taken, 8)) return false;
  const bool by_one = taken == 1;
  if (by_one && count < 2) (void)sys::read(fd, &taken, 8);
  else if (by_one) (void)sys::write(fd, &one, 8);
  else if (count) (void)sys::write(fd, &count, 8);
  return by_one;
}

Status describe_eventfd(image::ImageFile& file) {
  const char* text = fdinfo_of(0, file.fd);
  const char* count = text ? find_field(text, "eventfd-count:") : nullptr;
  if (!count) return failure(sys::kEio);
  file.kind = kEvent;
  file.values[0] = parse_hex(count);
  file.values[1] = is_semaphore(text, file.fd, file.values[0]);
  return success();
}

Status describe_timerfd(image::ImageFile& file) {
  const char* text = fdinfo_of(0, file.fd);
  TimerLines timer;
  if (!text || !parse_timer(text, timer)) return failure(sys::kEio);
  file.kind = kTimer;
  file.values[kTimerClock] = timer.clock;
  file.values[kTimerTicks] = timer.ticks;
  file.values[kTimerValueNs] = timer.value_ns;
  file.values[kTimerIntervalNs] = timer.interval_ns;
  if (timer.absolute && timer.clock == 0 && timer.value_ns) {
    sys::TimeSpec now{};
    (void)sys::call(SYS_clock_gettime, timer.clock, sys::arg(&now));
    file.values[kTimerClock] |= kAbsoluteTimer;
    file.values[kTimerValueNs] += u64(now.seconds) * kNsPerSecond + u64(now.nanoseconds);
  }
  return success();
}

Status describe_signalfd(image::ImageFile& file) {
  const char* text = fdinfo_of(0, file.fd);
  const char* mask = text ? find_field(text, "sigmask:") : nullptr;
  if (!mask) return failure(sys::kEio);
  file.kind = kSignal;
  file.values[0] = parse_hex(mask);
  return success();
}

/// Calls take(line) for each line of the descriptor's fdinfo until it fails.
template <typename Take>
Status each_line(int fd, Take take) {
  const char* text = fdinfo_of(0, fd);
  if (!text) return failure(sys::kEio);
  for (const char* line = text; line && *line; line = next_line(line)) {
    const Status done = take(line);
    if (!done) return done;
  }
  return success();
}

image::ImageMember* add_member(Saver& saver, const image::ImageFile& file, MemberKind kind) {
  image::ImageMember* member = saver.writer.members.add();
  if (!member) return nullptr;
  member->fd = file.fd;
  member->kind = kind;
  return member;
}

/// The path under which a watched file was named, if it is still found there.
const char* present_path(const WatchLine& watch) {
  const char* path = watched_path(watch.inode, watch.device);
  sys::KernelStat info;
  return path && sys::stat(path, &info) ? path : nullptr;
}

}  // namespace

Status describe_event(Saver& saver, image::ImageFile& file, const char* path) {
  file.path_string = saver.writer.string(path);
  const char* name = path + text_length("anon_inode:");
  Status done = failure(sys::kEperm);
  if (text_equal(name, "[eventfd]")) done = describe_eventfd(file);
  else if (text_equal(name, "[timerfd]")) done = describe_timerfd(file);
  else if (text_equal(name, "[signalfd]")) done = describe_signalfd(file);
  else if (text_equal(name, "[eventpoll]")) file.kind = kEpoll, done = success();
  else if (text_equal(name, "inotify")) file.kind = kInotify, done = success();
  if (!done) saver.refuse(file) << path << "; close it before the checkpoint";
  return done;
}

namespace {

/// kcmp(2), KCMP_EPOLL_TFD: is descriptor `fd` what the epoll was told to watch under that number,
/// and the only thing? The same number may stand there for several files, all but one closed.
bool is_watched(int epoll, u32 fd) {
  struct {
    u32 epoll, target, index;
  } slot{u32(epoll), fd, 0};
  const u32 pid = sys::getpid();
  const Result<u64> first = sys::call(SYS_kcmp, pid, pid, sys::kKcmpEpollTfd, fd, sys::arg(&slot));
  slot.index = 1;
  const Result<u64> second =
      sys::call(SYS_kcmp, pid, pid, sys::kKcmpEpollTfd, fd, sys::arg(&slot));
  return first && first.value == 0 && !second;
}

}  // namespace

Status finish_epoll(Saver& saver, const image::ImageFile& file) {
  return each_line(file.fd, [&](const char* line) {
    MemberLine entry;
    if (!parse_member(line, entry)) return success();
    const image::ImageFile* watched = saver.find(int(entry.fd));
    const bool same = watched && is_watched(file.fd, u32(entry.fd));
    image::ImageMember* member = same ? add_member(saver, file, kEpollMember) : nullptr;
    if (!member) {
      saver.refuse(file) << "an epoll that watches what was descriptor " << entry.fd
                         << ", which has been closed; remove it before the checkpoint";
      return failure(sys::kEperm);
    }
    member->target = int(entry.fd);
    member->flags = u32(entry.events);
    member->values[0] = entry.data;
    return success();
  });
}

Status finish_inotify(Saver& saver, const image::ImageFile& file) {
  i32 unread = 0;
  (void)sys::call(SYS_ioctl, u64(file.fd), sys::kFionread, sys::arg(&unread));
  if (unread) {
    saver.refuse(file) << "inotify events that have not been read; read them first";
    return failure(sys::kEagain);
  }
  const u64 first = saver.writer.members.count;
  return each_line(file.fd, [&](const char* line) {
    WatchLine watch;
    if (!parse_watch(line, watch)) return success();
    const char* path = present_path(watch);
    image::ImageMember* member = path ? add_member(saver, file, kWatch) : nullptr;
    if (!member) {
      saver.refuse(file) << "inotify watch " << watch.number
                         << " of a file that is no longer found under its name";
      return failure(sys::kEperm);
    }
    member->target = int(watch.number);
    member->flags = u32(watch.mask);
    member->path_string = saver.writer.string(path);
    // Ascending, because a restart can only count up; the kernel lists the newest first.
    for (image::ImageMember* before = member - 1;
         member != saver.writer.members.entries + first && before->target > member->target;
         member = before--) {
      const image::ImageMember later = *before;
      *before = *member;
      *member = later;
    }
    return success();
  });
}

Status finish_locks(Saver& saver, const image::ImageFile& file) {
  // POSIX locks belong to the process that is being saved, not to its image writer.
  const char* text = fdinfo_of(saver.context.pid, file.fd);
  if (!text) {
    saver.refuse(file) << "its locks cannot be read from /proc/" << saver.context.pid << "/fdinfo";
    return failure(sys::kEio);
  }
  for (const char* line = text; line && *line; line = next_line(line)) {
    LockLine lock;
    if (!parse_lock(line, lock)) continue;
    image::ImageMember* member =
        lock.member_kind ? add_member(saver, file, MemberKind(lock.member_kind)) : nullptr;
    if (!member) {
      saver.refuse(file) << "a lease on " << saver.writer.text(file.path_string);
      return failure(sys::kEperm);
    }
    member->flags = lock.exclusive;
    member->values[0] = lock.first;
    member->values[1] = lock.bytes;
  }
  return success();
}

namespace {

Status restore_timer(int fd, const image::ImageFile& file) {
  u64 ticks = file.values[kTimerTicks], first = file.values[kTimerValueNs];
  const u64 interval = file.values[kTimerIntervalNs];
  if (!first && !ticks) return success();  // not armed
  // A kernel without SET_TICKS: what has expired expires again, at once, and counts once.
  TimerSpec spec{to_time(interval), to_time(first ? first : 1)};
  const u64 absolute = file.values[kTimerClock] & kAbsoluteTimer ? 1 : 0;  // TFD_TIMER_ABSTIME
  Result<u64> done = sys::call(SYS_timerfd_settime, u64(fd), absolute, sys::arg(&spec), 0);
  if (done && ticks && !sys::call(SYS_ioctl, u64(fd), sys::kTfdIocSetTicks, sys::arg(&ticks))) {
    spec.value = to_time(1);
    done = sys::call(SYS_timerfd_settime, u64(fd), 0, sys::arg(&spec), 0);
  }
  return done ? success() : failure(done.error);
}

/// Numbers of watches only go up: lower ones are made and removed until it is this one's turn.
Status restore_watch(const Restorer& restorer, const image::ImageMember& member) {
  const u64 mask = member.flags & (0xfff | sys::kInExclUnlink | sys::kInOneShot) & ~sys::kInMaskAdd;
  const char* path = restorer.reader.string(member.path_string);
  for (;;) {
    const Result<u64> got =
        sys::call(SYS_inotify_add_watch, u64(member.fd), sys::arg(path), mask);
    if (got && int(got.value) == member.target) {
      note_watch(member.fd, got.value, path);
      return success();
    }
    if (got && int(got.value) < member.target) {
      (void)sys::call(SYS_inotify_rm_watch, u64(member.fd), got.value);
      continue;
    }
    restorer.why << "cannot watch " << path << " again (descriptor " << member.fd << ")";
    return failure(got ? sys::kEexist : got.error);
  }
}

/// Takes the IN_IGNORED events of removed watches out of the queue.
void discard_events(int fd) {
  char event[512];
  i32 unread = 0;
  while (sys::call(SYS_ioctl, u64(fd), sys::kFionread, sys::arg(&unread)) && unread > 0)
    if (!sys::read(fd, event, sizeof event)) return;
}

struct FileLock {  // struct flock
  i16 type, whence;
  i32 pad;
  i64 first, bytes;
  i32 pid, pad2;
};

/// Takes a lock, waiting a while for somebody who is about to give it up.
Status restore_lock(Restorer& restorer, const image::ImageMember& member) {
  FileLock lock{i16(member.flags ? sys::kFWrlck : sys::kFRdlck), 0, 0, i64(member.values[0]),
                i64(member.values[1]), 0, 0};
  const u64 deadline = sys::now_ns() + 5 * kNsPerSecond;
  for (;;) {
    const Result<u64> got =
        member.kind == kFlock
            ? sys::call(SYS_flock, u64(member.fd),
                        (member.flags ? sys::kLockEx : sys::kLockSh) | sys::kLockNb)
            : sys::fcntl(member.fd,
                         member.kind == kPosixLock ? sys::kSetLock : sys::kSetDescriptionLock,
                         sys::arg(&lock));
    if (got) return success();
    if (got.error == sys::kEagain && sys::now_ns() < deadline) {
      sys::sleep_ns(10'000'000);
      continue;
    }
    const image::ImageFile* file = restorer.find(member.fd);
    restorer.why << "cannot lock " << (file ? restorer.reader.string(file->path_string) : "")
                 << " again (descriptor " << member.fd << "): another program may hold it";
    return failure(got.error);
  }
}

struct [[gnu::packed]] EpollEvent {
  u32 events;
  u64 data;
};

}  // namespace

Status restore_event(Restorer& restorer, const image::ImageFile& file) {
  const u64 flags = (file.flags & u32(sys::kNonBlock)) | sys::kCloseOnExec;
  Result<u64> made = Result<u64>::fail(sys::kEinval);
  switch (file.kind) {
    case kEvent:  // the count may exceed eventfd's 32 bits
      made = sys::call(SYS_eventfd2, 0, flags | (file.values[1] & 1));
      if (made && file.values[0]) (void)sys::write(int(made.value), &file.values[0], 8);
      break;
    case kTimer: made = sys::call(SYS_timerfd_create, u32(file.values[kTimerClock]), flags); break;
    case kSignal:
      made = sys::call(SYS_signalfd4, -u64(1), sys::arg(&file.values[0]), 8, flags);
      break;
    case kEpoll: made = sys::call(SYS_epoll_create1, sys::kCloseOnExec); break;
    case kInotify: made = sys::call(SYS_inotify_init1, flags); break;
    default: break;
  }
  if (made && file.kind == kTimer) {
    const Status armed = restore_timer(int(made.value), file);
    if (!armed) return armed;
  }
  return made ? restorer.place(int(made.value), file) : failure(made.error);
}

Status restore_member(Restorer& restorer, const image::ImageMember& member) {
  if (member.kind == kWatch) {
    const Status done = restore_watch(restorer, member);
    discard_events(member.fd);
    return done;
  }
  if (member.kind == kSocketOption) return restore_option(restorer, member);
  if (member.kind == kOwner) return restore_owner(restorer, member);
  if (member.kind >= kFileOwner && member.kind <= kFileFlags)
    return restore_property(restorer, member);
  if (member.kind >= kHelper && member.kind <= kHelperFile) return success();  // the launcher's
  if (member.kind != kEpollMember) return restore_lock(restorer, member);
  const EpollEvent event{member.flags, member.values[0]};
  const Result<u64> added = sys::call(SYS_epoll_ctl, u64(member.fd), sys::kEpollCtlAdd,
                                      u64(member.target),
                                      sys::arg(&event));
  if (!added) restorer.why << "cannot add descriptor " << member.target << " to epoll "
                           << member.fd;
  return added ? success() : failure(added.error);
}

}  // namespace fermata::files
