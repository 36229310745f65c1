// SPDX-License-Identifier: Apache-2.0
// The kernel as the launcher sees it: every system call it makes, typed, with errors as Result.
// Nothing here touches errno, allocates, takes a lock or needs a thread register, so all of it may
// run in a signal handler, between the halves and while memory is being restored.
// Structures: Linux x86-64 ABI, include/uapi. Numbers: linux.h.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>

#include "arch/x86_64/syscall.h"
#include "base/result.h"
#include "base/text.h"
#include "sys/linux.h"

namespace fermata::sys {

inline Result<u64> call(u64 number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0,
                        u64 f = 0) {
  const i64 r = arch::raw_syscall(number, a, b, c, d, e, f);
  if (r < 0 && r >= -4095) return Result<u64>::fail(i32(-r));
  return Result<u64>::ok(u64(r));
}

template <typename T>
u64 arg(T* pointer) {
  return reinterpret_cast<u64>(pointer);
}

// --- memory ----------------------------------------------------------------------------------
inline Result<u64> mmap(u64 address, u64 bytes, int prot, int flags, int fd = -1, u64 offset = 0) {
  return call(SYS_mmap, address, bytes, u64(prot), u64(flags), u64(i64(fd)), offset);
}
inline Result<u64> munmap(u64 address, u64 bytes) { return call(SYS_munmap, address, bytes); }
inline Result<u64> mprotect(u64 address, u64 bytes, int prot) {
  return call(SYS_mprotect, address, bytes, u64(prot));
}

// --- files -----------------------------------------------------------------------------------
inline Result<u64> open(const char* path, int flags, u32 mode = 0) {
  return call(SYS_openat, u64(i64(kAtCwd)), arg(path), u64(flags), mode);
}
inline Result<u64> open_at(int directory, const char* path, int flags) {
  return call(SYS_openat, u64(i64(directory)), arg(path), u64(flags));
}
inline Result<u64> close(int fd) { return call(SYS_close, u64(fd)); }
inline Result<u64> read(int fd, void* to, u64 bytes) {
  return call(SYS_read, u64(fd), arg(to), bytes);
}
inline Result<u64> write(int fd, const void* from, u64 bytes) {
  return call(SYS_write, u64(fd), arg(from), bytes);
}
inline Result<u64> pread(int fd, void* to, u64 bytes, u64 offset) {
  return call(SYS_pread64, u64(fd), arg(to), bytes, offset);
}
inline Result<u64> pwrite(int fd, const void* from, u64 bytes, u64 offset) {
  return call(SYS_pwrite64, u64(fd), arg(from), bytes, offset);
}
inline Result<u64> lseek(int fd, i64 offset, int whence) {
  return call(SYS_lseek, u64(fd), u64(offset), u64(whence));
}
inline Result<u64> fsync(int fd) { return call(SYS_fsync, u64(fd)); }
inline Result<u64> syncfs(int fd) { return call(SYS_syncfs, u64(fd)); }
inline Result<u64> fcntl(int fd, int command, u64 argument = 0) {
  return call(SYS_fcntl, u64(fd), u64(command), argument);
}
inline Result<u64> dup3(int from, int to, int flags) {
  return call(SYS_dup3, u64(from), u64(to), u64(flags));
}

/// Reads all of `bytes` at `offset` unless the file ends first. Returns the bytes read.
inline Result<u64> pread_full(int fd, void* to, u64 bytes, u64 offset) {
  u64 done = 0;
  while (done < bytes) {
    const Result<u64> got = pread(fd, static_cast<char*>(to) + done, bytes - done, offset + done);
    if (!got && got.error == kEintr) continue;
    if (!got) return got;
    if (got.value == 0) break;
    done += got.value;
  }
  return Result<u64>::ok(done);
}

/// Reads a file, up to `capacity` - 1 bytes of it, as text that ends with a zero. Returns the bytes
/// read; after an error `to` is empty.
inline Result<u64> read_text(const char* path, char* to, u64 capacity) {
  const Result<u64> file = open(path, kReadOnly | kCloseOnExec);
  const Result<u64> got = file ? pread_full(int(file.value), to, capacity - 1, 0) : file;
  if (file) (void)close(int(file.value));
  to[got ? got.value : 0] = 0;
  return got;
}

/// Writes all of `bytes` at `offset`; a short write is continued. `writes` is what takes a part of
/// it, or all, each time: pwrite, but for faults.h.
template <typename Writes = decltype(&pwrite)>
Status pwrite_full(int fd, const void* from, u64 bytes, u64 offset, Writes writes = pwrite) {
  u64 done = 0;
  while (done < bytes) {
    const Result<u64> put =
        writes(fd, static_cast<const char*>(from) + done, bytes - done, offset + done);
    if (!put && put.error == kEintr) continue;
    if (!put) return failure(put.error);
    done += put.value;
  }
  return success();
}

struct KernelStat {  // struct stat of asm/stat.h
  u64 dev, ino, nlink;
  u32 mode, uid, gid, pad0;
  u64 rdev;
  i64 size, blksize, blocks;
  u64 times[6];
  i64 unused[3];
};
inline Result<u64> fstat(int fd, KernelStat* out) { return call(SYS_fstat, u64(fd), arg(out)); }
inline Result<u64> stat(const char* path, KernelStat* out) {
  return call(SYS_newfstatat, u64(i64(kAtCwd)), arg(path), arg(out), 0);
}

/// Opens a regular file for reading. Anything else that has its name by now is refused (ENXIO), and
/// not waited for, as open(2) does for the other end of a pipe.
inline Result<u64> open_regular(const char* path) {
  const Result<u64> opened = open(path, kReadOnly | kCloseOnExec | kNonBlock);
  KernelStat info{};
  if (!opened || (fstat(int(opened.value), &info) && (info.mode & kTypeMask) == kTypeRegular))
    return opened;
  (void)close(int(opened.value));
  return Result<u64>::fail(kEnxio);
}

inline Result<u64> readlink(const char* path, char* to, u64 bytes) {
  const Result<u64> got = call(SYS_readlinkat, u64(i64(kAtCwd)), arg(path), arg(to), bytes - 1);
  if (got) to[got.value] = 0;
  return got;
}

// --- process ---------------------------------------------------------------------------------
[[noreturn]] inline void exit_group(int code) {
  for (;;) arch::raw_syscall(SYS_exit_group, u64(code));
}
inline u32 getpid() { return u32(arch::raw_syscall(SYS_getpid)); }
inline u32 gettid() { return u32(arch::raw_syscall(SYS_gettid)); }
inline Result<u64> tgkill(u32 pid, u32 tid, int signal) {
  return call(SYS_tgkill, pid, tid, u64(signal));
}

// --- time and waiting ------------------------------------------------------------------------
struct TimeSpec {
  i64 seconds, nanoseconds;
};
inline TimeSpec to_spec(u64 ns) { return {i64(ns / 1'000'000'000), i64(ns % 1'000'000'000)}; }
inline u64 to_ns(const TimeSpec& t) {
  return u64(t.seconds) * 1'000'000'000 + u64(t.nanoseconds);
}
inline u64 now_ns() {
  TimeSpec t{};
  (void)call(SYS_clock_gettime, kClockMonotonic, arg(&t));
  return to_ns(t);
}
inline void sleep_ns(u64 ns) {
  const TimeSpec t = to_spec(ns);
  (void)call(SYS_nanosleep, arg(&t), 0);
}
/// Blocks while *address == expected, at most timeout_ns.
inline void futex_wait(const u32* address, u32 expected, u64 timeout_ns) {
  const TimeSpec t = to_spec(timeout_ns);
  (void)call(SYS_futex, arg(address), FUTEX_WAIT_PRIVATE, expected, arg(&t));
}
inline void futex_wake_all(const u32* address) {
  (void)call(SYS_futex, arg(address), FUTEX_WAKE_PRIVATE, 0x7fffffff);
}

/// The same on memory that processes share.
inline void futex_wait_shared(const u32* address, u32 expected, u64 timeout_ns) {
  const TimeSpec t = to_spec(timeout_ns);
  (void)call(SYS_futex, arg(address), FUTEX_WAIT, expected, arg(&t));
}
inline void futex_wake_shared(const u32* address) {
  (void)call(SYS_futex, arg(address), FUTEX_WAKE, 0x7fffffff);
}

// --- signals ---------------------------------------------------------------------------------
struct KernelAction {  // struct sigaction as the kernel knows it
  u64 handler, flags, restorer, mask;
};
inline constexpr u64 signal_bit(int signal) { return u64(1) << (signal - 1); }

inline Result<u64> sigaction(int signal, const KernelAction* action, KernelAction* old) {
  return call(SYS_rt_sigaction, u64(signal), arg(action), arg(old), 8);
}
inline Result<u64> sigprocmask(int how, const u64* set, u64* old) {
  return call(SYS_rt_sigprocmask, u64(how), arg(set), arg(old), 8);
}

// --- words for people ------------------------------------------------------------------------
/// Where they go: number 2 may be the application's own file. -1: there is nobody to read them.
inline int message_stream = 2;
inline void say(const char* text) { (void)write(message_stream, text, text_length(text)); }

}  // namespace fermata::sys
