// SPDX-License-Identifier: Apache-2.0
// Whose memory is where. What the upper half maps without naming an address goes into its window,
// next-fit from a cursor; the lower half's code goes into its own. The kernel has the last word:
// every placement is tried with MAP_FIXED_NOREPLACE, so a stale cursor costs a retry, never memory.
#include "launcher/load/placement.h"

#include "halves/layout.h"
#include "launcher/load/program.h"
#include "launcher/patch/sites.h"
#include "memory/aliases.h"
#include "memory/forks.h"
#include "memory/locks.h"
#include "memory/maps.h"
#include "memory/objects.h"
#include "memory/refusals.h"
#include "memory/segments.h"
#include "sys/sys.h"

namespace fermata::launch {

Placement placement{kUpperHeap, kUpperHeap, kUpperMmap};

namespace {

constexpr u64 kHugePage = 0x20'0000;
constexpr u64 kLimitInWindow = kUpperMmapEnd - kUpperMmap;
u64 lower_cursor = kLowerBase;

u64 failed(i32 error) { return u64(-i64(error)); }
u64 outcome(const Result<u64>& result) { return result ? result.value : failed(result.error); }

/// Takes `bytes` from the upper window. Large mappings are aligned for huge pages, as the kernel
/// does since 6.7, and each is followed by an unmapped page so that neighbours never merge by
/// chance.
u64 take_upper(u64 bytes) {
  const u64 align = bytes >= kHugePage ? kHugePage : kPageBytes;
  for (;;) {
    u64 cursor = __atomic_load_n(&placement.mmap_cursor, __ATOMIC_RELAXED);
    u64 start = (cursor + align - 1) & ~(align - 1);
    if (start + bytes > kUpperMmapEnd) start = kUpperMmap;
    const u64 next = start + page_ceil(bytes) + kPageBytes;
    if (__atomic_compare_exchange_n(&placement.mmap_cursor, &cursor, next, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return start;
  }
}

/// Tries place(address) until it finds room. `tries` bounds the search after the window has
/// wrapped.
template <typename Place>
u64 place_upper(u64 bytes, Place place) {
  if (bytes == 0) return failed(sys::kEinval);
  if (bytes > kLimitInWindow / 2) return failed(sys::kEnomem);
  for (int tries = 0; tries < 100'000; tries++) {
    const Result<u64> got = place(take_upper(bytes));
    if (got || got.error != sys::kEexist) return outcome(got);
  }
  return failed(sys::kEnomem);
}

/// Does this mapping let the application write what others see, now or after mprotect?
bool shares(u64 prot, u64 flags, u64 fd) {
  if (flags & u64(sys::kMapHugeTlb)) return true;  // lent to the image writer: memory/save.cpp
  if (!(flags & u64(sys::kMapShared))) return false;
  if ((flags & u64(sys::kMapAnonymous)) || (prot & u64(sys::kProtWrite))) return true;
  const Result<u64> mode = sys::fcntl(int(fd), sys::kGetFlags);
  return mode && (mode.value & sys::kAccessMode) == u64(sys::kReadWrite);
}

/// Memory of a driver is refused at the checkpoint, but the image writer, a child, may not see it.
void note_driver(u64 flags, u64 fd) {
  sys::KernelStat info;
  if ((flags & u64(sys::kMapAnonymous)) || !sys::fstat(int(fd), &info)) return;
  if ((info.mode & sys::kTypeMask) != sys::kTypeRegular) memory::note_fork_advice();
}

u64 upper_mmap(u64 address, u64 bytes, u64 prot, u64 flags, u64 fd, u64 offset) {
  const bool fixed = flags & u64(sys::kMapFixed | sys::kMapFixedNoReplace);
  if (shares(prot, flags, fd)) memory::note_shared_memory();
  note_driver(flags, fd);
  if (fixed || (flags & u64(sys::kMap32Bit))) {
    const Result<u64> got = sys::call(SYS_mmap, address, bytes, prot, flags, fd, offset);
    if (got) memory::note_placed(got.value, bytes);
    return outcome(got);
  }
  if (address && in_upper(address)) {  // a hint: honoured if that place is free
    const Result<u64> got = sys::call(SYS_mmap, page_floor(address), bytes, prot,
                                      flags | u64(sys::kMapFixedNoReplace), fd, offset);
    if (got || got.error != sys::kEexist) return outcome(got);
  }
  return place_upper(bytes, [&](u64 at) {
    return sys::call(SYS_mmap, at, bytes, prot, flags | u64(sys::kMapFixedNoReplace), fd, offset);
  });
}

/// Code of the lower half, a library whose code will follow with MAP_FIXED, or memory that is asked
/// for at an address of the upper window or below it (a peer has it there, or MPICH has drawn it
/// for its symmetric heap). The last goes elsewhere, or nowhere: what lies there is the program's,
/// is saved, and must be free at a restart.
u64 lower_mmap(u64 address, u64 bytes, u64 prot, u64 flags, u64 fd, u64 offset) {
  const bool fixed = flags & u64(sys::kMapFixed | sys::kMapFixedNoReplace);
  if (fixed && address < kUpperEnd) return failed(sys::kEexist);
  const bool executable = prot & u64(sys::kProtExec);
  const bool library = executable || (flags & u64(sys::kMapDenyWrite));
  if (!library) return outcome(sys::call(SYS_mmap, 0, bytes, prot, flags, fd, offset));
  const bool code = executable && !(flags & u64(sys::kMapAnonymous));
  const u64 first_prot = code ? u64(sys::kProtRead | sys::kProtWrite) : prot;
  if (!fixed) {
    address = place_lower(bytes);
    flags |= u64(sys::kMapFixedNoReplace);
  }
  const Result<u64> got = sys::call(SYS_mmap, address, bytes, first_prot, flags, fd, offset);
  if (!got || !code) return outcome(got);
  rewrite_sites(int(fd), offset, got.value, bytes);
  const Result<u64> protect = sys::mprotect(got.value, bytes, int(prot));
  return protect ? got.value : failed(protect.error);
}

}  // namespace

u64 place_lower(u64 bytes) {
  const u64 room = page_ceil(bytes) + 0x20'0000;
  const u64 step = (room + 0x1f'ffff) & ~u64(0x1f'ffff);
  return __atomic_fetch_add(&lower_cursor, step, __ATOMIC_RELAXED);
}

u64 trap_mmap(Half half, u64 address, u64 bytes, u64 prot, u64 flags, u64 fd, u64 offset) {
  if (half == Half::kUpper) return upper_mmap(address, bytes, prot, flags, fd, offset);
  return lower_mmap(address, bytes, prot, flags, fd, offset);
}

u64 trap_mremap(u64 old_address, u64 old_bytes, u64 new_bytes, u64 flags, u64 new_address) {
  if ((flags & sys::kMremapFixed) || !(flags & sys::kMremapMayMove)) {
    const Result<u64> got =
        sys::call(SYS_mremap, old_address, old_bytes, new_bytes, flags, new_address);
    if (got) memory::note_placed(got.value, new_bytes);
    return outcome(got);
  }
  if (old_bytes && !(flags & sys::kMremapDontUnmap)) {  // else a second mapping is wanted
    const Result<u64> in_place =
        sys::call(SYS_mremap, old_address, old_bytes, new_bytes, flags & ~sys::kMremapMayMove);
    if (in_place || in_place.error != sys::kEnomem) return outcome(in_place);
  }
  // Reserve the new place first: MREMAP_FIXED replaces whatever is there.
  const u64 place = place_upper(new_bytes, [&](u64 at) {
    return sys::mmap(at, page_ceil(new_bytes), 0,
                     sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve |
                         sys::kMapFixedNoReplace);
  });
  if (i64(place) < 0) return place;
  const Result<u64> moved =
      sys::call(SYS_mremap, old_address, old_bytes, new_bytes, flags | sys::kMremapFixed, place);
  if (!moved) (void)sys::munmap(place, page_ceil(new_bytes));
  return outcome(moved);
}

namespace {

/// What the program may do with the pages of a range (mprotect), while something else takes their
/// place. Meanwhile they can be read.
class Protections {
 public:
  Protections(u64 start, u64 bytes) : start_(start), bytes_(bytes) {}
  Protections(const Protections&) = delete;
  Protections& operator=(const Protections&) = delete;
  ~Protections() {
    if (pages_) (void)sys::munmap(pages_, bytes_ / kPageBytes);
  }

  bool lift() {
    const Result<u64> room = sys::mmap(0, bytes_ / kPageBytes, kReadWrite,
                                       sys::kMapPrivate | sys::kMapAnonymous);
    char* const text = room ? memory::read_mappings(memory::Detail::kPlain) : nullptr;
    if (room) pages_ = room.value;
    if (!text) return false;
    memory::Mapping mapping;
    for (char* at = text; (at = memory::parse_mapping(at, mapping));)
      for (u64 page = mapping.start > start_ ? mapping.start : start_;
           page < mapping.end && page < start_ + bytes_; page += kPageBytes)
        of(page) = u8((mapping.read ? sys::kProtRead : 0) | (mapping.write ? sys::kProtWrite : 0) |
                      (mapping.execute ? sys::kProtExec : 0));
    memory::free_mappings(text);
    return bool(sys::mprotect(start_, bytes_, kReadWrite));
  }

  void bring_back() {
    for (u64 page = start_; page < start_ + bytes_;) {
      u64 end = page + kPageBytes;
      while (end < start_ + bytes_ && of(end) == of(page)) end += kPageBytes;
      if (of(page) != kReadWrite) (void)sys::mprotect(page, end - page, of(page));
      page = end;
    }
  }

 private:
  static constexpr u8 kReadWrite = sys::kProtRead | sys::kProtWrite;
  u8& of(u64 page) { return reinterpret_cast<u8*>(pages_)[(page - start_) / kPageBytes]; }

  u64 start_, bytes_, pages_ = 0;  // pages_: one byte each
};

/// But for pages that are zero in both places.
void copy_pages(u64 from, u64 to, u64 bytes) {
  for (u64 page = 0; page < bytes; page += kPageBytes) {
    const u64* const words = reinterpret_cast<const u64*>(from + page);
    u64 any = 0;
    for (u64 i = 0; i < kPageBytes / sizeof(u64); i++) any |= words[i];
    if (any) __builtin_memcpy(reinterpret_cast<void*>(to + page), words, kPageBytes);
  }
}

}  // namespace

i32 share(u64 from, u64 to, u64 bytes) {
  // A length of 0 means a second mapping. MREMAP_FIXED at once would unmap what is at `to` before
  // it knew whether that is possible.
  const Result<u64> second = sys::call(SYS_mremap, from, 0, bytes, sys::kMremapMayMove);
  if (!second) return -second.error;
  // The first may be the program's, and closed by it.
  (void)sys::mprotect(second.value, bytes, sys::kProtRead | sys::kProtWrite);
  const bool is_upper = in_upper(to);
  Result<u64> moved = Result<u64>::fail(sys::kEnomem);
  if (!is_upper || memory::note_alias(to, bytes)) {
    moved = sys::call(SYS_mremap, second.value, bytes, bytes,
                      sys::kMremapMayMove | sys::kMremapFixed, to);
    if (is_upper && moved) memory::note_shared_memory();
    if (is_upper && !moved) memory::forget_alias(to);
  }
  if (moved) return 0;
  (void)sys::munmap(second.value, bytes);
  (void)sys::mmap(to, bytes, sys::kProtRead | sys::kProtWrite,
                  sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixedNoReplace);
  return -moved.error;
}

i32 share_again(u64 from, u64 to, u64 bytes) {
  Protections protections(to, bytes);
  if (!protections.lift()) return -sys::kEnomem;
  copy_pages(to, from, bytes);
  const i32 done = share(from, to, bytes);
  protections.bring_back();
  return done;
}

void unshare(u64 at, u64 bytes) {
  memory::forget_alias(at);
  (void)sys::munmap(at, bytes);
}

bool renew_lower(u64 at, u64 bytes, bool shared) {
  if (in_upper(at) || in_upper(at + bytes)) return false;  // its heap is outside its window
  const int kind = shared ? sys::kMapShared : sys::kMapPrivate;
  return bool(sys::mmap(at, bytes, sys::kProtRead | sys::kProtWrite,
                        kind | sys::kMapAnonymous | sys::kMapFixed));
}

u64 trap_brk(u64 address) {
  static u32 lock = 0;
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) arch::pause();
  u64& end = placement.brk_end;
  if (address >= placement.brk_start && address <= kUpperHeap + kUpperHeapBytes) {
    const u64 mapped = page_ceil(end), wanted = page_ceil(address);
    bool done = true;
    if (wanted > mapped)
      done = bool(sys::mmap(mapped, wanted - mapped, sys::kProtRead | sys::kProtWrite,
                            sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixedNoReplace));
    else if (wanted < mapped)
      done = bool(sys::munmap(wanted, mapped - wanted));
    if (done) end = address;
  }
  const u64 result = end;
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  return result;
}

/// The lower half may give it, too, for buffers of the program that a network sends from
/// (libibverbs); of its own memory no image has anything.
u64 trap_fork_advice(u64 address, u64 bytes, u64 advice) {
  if (address < kUpperEnd) memory::note_fork_advice();
  return outcome(sys::call(SYS_madvise, address, bytes, advice));
}

u64 trap_mlockall(u64 flags) { return outcome(memory::lock_all(flags)); }
u64 trap_munlockall() { return outcome(memory::unlock_all()); }

u64 trap_io_setup(u64 events, u64 context) {
  const Result<u64> got = sys::call(SYS_io_setup, events, context);
  if (got) memory::note_io_context(*reinterpret_cast<const u64*>(context));
  return outcome(got);
}

u64 trap_shmget(u64 key, u64 bytes, u64 flags) {
  return outcome(memory::create_segment(key, bytes, flags));
}

u64 trap_shmctl(u64 id, u64 command, u64 argument) {
  return outcome(memory::control_segment(id, command, argument));
}

u64 trap_semget(u64 key, u64 count, u64 flags) {
  const Result<u64> got = sys::call(SYS_semget, key, count, flags);
  if (got) memory::note_semaphores(u32(got.value));
  return outcome(got);
}

u64 trap_msgget(u64 key, u64 flags) {
  const Result<u64> got = sys::call(SYS_msgget, key, flags);
  if (got) memory::note_queue(u32(got.value));
  return outcome(got);
}

u64 trap_shmat(u64 id, u64 address, u64 flags) {
  const u32 real = memory::real_segment(u32(id));
  memory::SegmentInfo info;
  const Result<u64> known = memory::stat_segment(real, info);
  if (!known) return outcome(known);
  memory::note_segment(u32(id), real);
  if (address) {
    const Result<u64> got = sys::call(SYS_shmat, real, address, flags);
    if (got) memory::note_placed(got.value, info.bytes);
    return outcome(got);
  }
  return place_upper(info.bytes, [&](u64 at) {
    const Result<u64> attached = sys::call(SYS_shmat, real, at, flags);
    // shmat says EINVAL for a taken address; another place will do.
    return !attached && attached.error == sys::kEinval ? Result<u64>::fail(sys::kEexist) : attached;
  });
}

}  // namespace fermata::launch
