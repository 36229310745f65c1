// SPDX-License-Identifier: Apache-2.0
#include "files/registry.h"

#include "arch/x86_64/syscall.h"
#include "base/text.h"
#include "files/fdinfo.h"
#include "sys/sys.h"

namespace fermata::files {
namespace {

constexpr u32 kPairCapacity = 4096, kWatchCapacity = 4096;
constexpr u64 kPathBytes = 1 << 20;

struct Pair {
  u64 a, b;
};
Pair pairs[kPairCapacity];
u32 pair_count;  // ever noted; the oldest is overwritten
constexpr u32 kEmptyCapacity = kPageBytes / 8;
u64* empty_messages;  // inodes, in a page that image writers share; null before the first pair

struct Watched {
  u64 inode, device;
  u64 path;  // offset in paths
};
Watched watched[kWatchCapacity];
u32 watched_count;
constexpr u32 kUntoldCapacity = 256;
struct Untold {
  u64 inode;
  const char* what;
};
Untold untold[kUntoldCapacity];
u32 untold_count;  // ever noted; the oldest is overwritten
constexpr u32 kReconnectingCapacity = 4096;
u64 reconnecting[kReconnectingCapacity];  // inodes
u32 reconnecting_count;  // ever noted; the oldest is overwritten
char paths[kPathBytes];
u64 path_bytes;
char fdinfo[1 << 16];

// Held for a few stores, with every signal but SIGSYS blocked: no thread can be stopped inside.
u32 lock;
struct Guard {
  Guard() {
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) arch::pause();
  }
  ~Guard() { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }
};

Watched* find_watched(u64 inode, u64 device) {
  for (u32 i = 0; i < watched_count; i++)
    if (watched[i].inode == inode && watched[i].device == device) return &watched[i];
  return nullptr;
}

/// Keeps `path`, made absolute. Returns its offset, or kPathBytes if there is no room.
u64 keep_path(const char* path) {
  char* out = paths + path_bytes;
  const u64 room = kPathBytes - path_bytes, bytes = text_length(path) + 1;
  u64 size = 0;
  if (path[0] != '/') {
    if (room < 4096) return kPathBytes;
    const Result<u64> cwd = sys::readlink("/proc/self/cwd", out, 4096);
    if (!cwd) return kPathBytes;
    size = cwd.value;
    out[size++] = '/';
  }
  if (bytes > room - size) return kPathBytes;
  __builtin_memcpy(out + size, path, bytes);
  const u64 at = path_bytes;
  path_bytes += size + bytes;
  return at;
}

}  // namespace

void note_reconnects(u64 inode) {
  const Guard guard;
  if (!reconnects(inode)) reconnecting[reconnecting_count++ % kReconnectingCapacity] = inode;
}

bool reconnects(u64 inode) {
  for (const u64 noted : reconnecting)
    if (noted == inode) return true;
  return false;
}

void note_untold(u64 inode, const char* what) {
  const Guard guard;
  if (untold_count && untold[(untold_count - 1) % kUntoldCapacity].inode == inode) return;
  untold[untold_count++ % kUntoldCapacity] = {inode, what};
}

const char* untold_of(u64 inode) {
  const u32 count = untold_count < kUntoldCapacity ? untold_count : kUntoldCapacity;
  for (u32 i = 0; i < count; i++)
    if (untold[i].inode == inode) return untold[i].what;
  return nullptr;
}

void note_pair(int a, int b) {
  sys::KernelStat of_a, of_b;
  if (!sys::fstat(a, &of_a) || !sys::fstat(b, &of_b)) return;
  const Guard guard;
  if (!empty_messages) {
    const Result<u64> page = sys::mmap(0, kPageBytes, sys::kProtRead | sys::kProtWrite,
                                       sys::kMapShared | sys::kMapAnonymous);
    if (page) empty_messages = reinterpret_cast<u64*>(page.value);
  }
  pairs[pair_count++ % kPairCapacity] = {of_a.ino, of_b.ino};
}

u64 peer_of(u64 inode) {
  for (const Pair& pair : pairs) {
    if (pair.a == inode) return pair.b;
    if (pair.b == inode) return pair.a;
  }
  return 0;
}

void note_empty_message(u64 inode, bool found) {
  u64* free = nullptr;
  for (u32 i = 0; empty_messages && i < kEmptyCapacity; i++) {
    u64& entry = empty_messages[i];
    if (entry == inode && !found) entry = 0;
    if (entry == inode) return;
    if (!entry && !free) free = &entry;
  }
  if (found && free) *free = inode;
}

bool has_empty_message(u64 inode) {
  for (u32 i = 0; empty_messages && i < kEmptyCapacity; i++)
    if (empty_messages[i] == inode) return true;
  return false;
}

void note_watch(int fd, u64 number, const char* path) {
  const Guard guard;
  if (!read_fdinfo(0, fd, fdinfo, sizeof fdinfo)) return;
  for (const char* line = fdinfo; line && *line; line = next_line(line)) {
    WatchLine watch;
    if (!parse_watch(line, watch) || watch.number != number) continue;
    Watched* entry = find_watched(watch.inode, watch.device);
    if (entry && text_equal(paths + entry->path, path)) return;
    if (!entry && watched_count == kWatchCapacity) return;
    const u64 kept = keep_path(path);
    if (kept == kPathBytes) return;  // forgotten: such a watch is refused at the checkpoint
    if (!entry) entry = &watched[watched_count++];
    *entry = {watch.inode, watch.device, kept};
    return;
  }
}

const char* watched_path(u64 inode, u64 device) {
  const Watched* entry = find_watched(inode, device);
  return entry ? paths + entry->path : nullptr;
}

}  // namespace fermata::files
