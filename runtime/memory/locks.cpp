// SPDX-License-Identifier: Apache-2.0
#include "memory/locks.h"

#include "halves/layout.h"
#include "memory/maps.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

constexpr u64 kUserEnd = 0x7fff'ffff'f000;
u32 noted_future;

/// Locks a range, then fills it in unless that is to wait. What is closed cannot be filled in.
Result<u64> lock_range(u64 start, u64 bytes, bool on_fault) {
  const Result<u64> locked = sys::call(SYS_mlock2, start, bytes, sys::kMlockOnFault);
  if (locked && !on_fault) (void)sys::call(SYS_mlock2, start, bytes, 0);
  return locked;
}

/// The part of the upper window that belongs to Fermata and is mostly reserved.
bool is_reservation(const Mapping& mapping) {
  return mapping.start >= kUpperBase && mapping.end <= kUpperHeap;
}

/// Calls take(start, bytes) for each mapping but Fermata's own until one fails.
template <typename Take>
Result<u64> each_present(Take take) {
  char* const text = read_mappings(Detail::kPlain);
  Result<u64> done = text ? Result<u64>::ok(0) : Result<u64>::fail(sys::kEnomem);
  for (char* next = text; next && *next && done;) {
    Mapping mapping;
    next = parse_mapping(next, mapping);
    if (!next || is_reservation(mapping) || mapping.end > kUserEnd) continue;
    done = take(mapping.start, mapping.bytes());
  }
  if (text) free_mappings(text);
  return done;
}

bool may_lock_anything() {
  struct {
    u32 version;
    i32 pid;
  } head{sys::kLinuxCapabilityVersion3, 0};
  u32 sets[6] = {};  // effective, permitted, inheritable; twice
  return sys::call(SYS_capget, sys::arg(&head), sys::arg(sets)) &&
         (sets[0] >> sys::kCapIpcLock & 1);
}

u64 lock_limit() {
  u64 limit[2] = {0, 0};
  (void)sys::call(SYS_prlimit64, 0, sys::kRlimitMemlock, 0, sys::arg(limit));
  return limit[0];
}

/// Like the kernel: all or nothing.
Result<u64> lock_present(bool on_fault) {
  u64 total = 0;
  const Result<u64> counted = each_present([&](u64, u64 bytes) {
    total += bytes;
    return Result<u64>::ok(0);
  });
  if (!counted) return counted;
  if (total > lock_limit() && !may_lock_anything())
    return Result<u64>::fail(lock_limit() ? sys::kEnomem : sys::kEperm);
  return each_present([&](u64 start, u64 bytes) { return lock_range(start, bytes, on_fault); });
}

/// Under a lower limit than the program knew, its every mmap might fail from now on.
bool may_lock_the_future(const image::ImageHeader& header) {
  return lock_limit() >= header.limits[2 * sys::kRlimitMemlock] || may_lock_anything();
}

}  // namespace

Result<u64> lock_all(u64 flags) {
  constexpr int kWhat = sys::kMclCurrent | sys::kMclFuture;
  if (!(flags & kWhat) || flags & ~(kWhat | sys::kMclOnFault))
    return Result<u64>::fail(sys::kEinval);
  Result<u64> done = Result<u64>::ok(0);
  if (flags & sys::kMclCurrent) done = lock_present(flags & sys::kMclOnFault);
  if (!done || !(flags & sys::kMclFuture)) return done;
  done = sys::call(SYS_mlockall, flags & ~sys::kMclCurrent);
  if (done) noted_future = u32(flags & ~sys::kMclCurrent);
  return done;
}

Result<u64> unlock_all() {
  noted_future = 0;
  return sys::call(SYS_munlockall);
}

u32 future_locks() { return noted_future; }

void restore_seals(const image::Reader& reader) {
  for (u64 i = 0; i < reader.header->regions.count; i++) {
    const image::ImageRegion& region = reader.regions[i];
    if (!(region.flags & kSealed)) continue;
    if (sys::call(sys::kSysMseal, region.start, region.end - region.start, 0)) continue;
    sys::say("fermata: memory that the program had sealed (mseal) is not sealed here\n");
    return;
  }
}

void restore_locks(const image::Reader& reader) {
  const image::ImageHeader& header = *reader.header;
  u64 bytes = 0;
  i32 error = 0;
  for (u64 i = 0; i < header.regions.count; i++) {
    const image::ImageRegion& region = reader.regions[i];
    if (!(region.flags & kLocked)) continue;
    const u64 size = region.end - region.start;
    const Result<u64> locked = lock_range(region.start, size, region.flags & kLockedOnFault);
    if (locked) continue;
    bytes += size;
    error = locked.error;
  }
  const bool future = header.future_locks && !bytes && may_lock_the_future(header);
  if (future) (void)lock_all(header.future_locks);
  if (!bytes && (future || !header.future_locks)) return;
  Message text;
  text << "fermata: rank " << header.world_rank << ": ";
  if (bytes) text << bytes / 1024 << " KiB that the program had locked in memory";
  else text << "memory to come, which the program had locked (mlockall),";
  text << " will not be locked here";
  if (error) text << " (errno " << error << ")";
  text << "\n  hint: raise `ulimit -l`\n";
  sys::say(text.data);
}

}  // namespace fermata::memory
