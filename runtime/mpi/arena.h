// SPDX-License-Identifier: Apache-2.0
// The front end's memory. MPI objects must be found again after a restart, and the safe-state code
// may run in a signal handler on top of an interrupted malloc; so nothing here knows a libc.
//
// Idea: one linear range of upper memory at kMpiArena, mapped in pieces as it grows, cut into
// blocks of power-of-two sizes with one free list per size. A block's header names its class, so
// free() needs no size. Memory goes back to the list it came from and never to the kernel, except
// that the pages of a big free block are given back (an unexpected message of a gigabyte must not
// be saved twice).
//
// Invariant: only the thread inside MPI touches the arena (MPI_THREAD_SERIALIZED at most), and it
// does so with Gate::depth > 0, so a quiesce signal never finds a list half changed.
// Invariant: the whole state lives inside the arena, hence inside the image.
#pragma once

#include <new>

#include "base/types.h"
#include "halves/layout.h"
#include "sys/sys.h"

namespace fermata::mpi {

inline constexpr u32 kArenaClasses = 40;       // 32 bytes << class
inline constexpr u64 kArenaStep = 0x10'0000;   // grown by whole mebibytes
inline constexpr u64 kArenaGiveBack = 0x10'0000;
inline constexpr u64 kArenaKeep = 0x400'0000;  // for the next call, at most
inline constexpr u64 kOwnMapping = ~u64{0};  // instead of a class: application_memory()

struct ArenaBlock {  // precedes every block; 16 bytes keep the payload aligned for any type
  u64 size_class;
  union {
    ArenaBlock* next_free;
    u64 mapped_bytes;  // of a mapping of its own
  };
};

struct Arena {  // the first bytes of the range
  u64 used_end;
  u64 mapped_end;
  u64 live_blocks;
  ArenaBlock* free_list[kArenaClasses];
};

inline Arena& arena() { return *reinterpret_cast<Arena*>(kMpiArena); }

/// The arena cannot report failure to a caller who could do something about it: say so and stop.
[[noreturn]] inline void fatal(const char* what) {
  Message text;
  text << "fermata: " << what << "\n";
  (void)sys::write(2, text.data, text.size);
  sys::exit_group(70);
}

inline void arena_map_to(u64 end) {
  Arena* const a = reinterpret_cast<Arena*>(kMpiArena);
  const u64 from = a->mapped_end;
  if (end > kMpiArena + kMpiArenaBytes) fatal("the MPI front end ran out of its 64 GiB of room");
  const u64 to = (end + kArenaStep - 1) / kArenaStep * kArenaStep;
  const Result<u64> got =
      sys::mmap(from, to - from, sys::kProtRead | sys::kProtWrite,
                sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixed | sys::kMapNoReserve);
  if (!got) fatal("cannot map memory for MPI objects");
  a->mapped_end = to;
}

/// Maps the first piece. Idempotent only in that it must be called exactly once per application.
inline void arena_start() {
  const Result<u64> got =
      sys::mmap(kMpiArena, kArenaStep, sys::kProtRead | sys::kProtWrite,
                sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixed | sys::kMapNoReserve);
  if (!got) fatal("cannot map memory for MPI objects");
  arena().mapped_end = kMpiArena + kArenaStep;
  arena().used_end = kMpiArena + page_ceil(sizeof(Arena));
}

/// Memory for `bytes` bytes, aligned to 16, not cleared. Never fails (it ends the job with a
/// message instead). Signal-safe under the invariant above.
inline void* arena_alloc(u64 bytes) {
  Arena& a = arena();
  u32 size_class = 0;
  const u64 need = bytes + sizeof(ArenaBlock);
  if (need > 32) size_class = 64 - u32(__builtin_clzll(need - 1)) - 5;
  if (size_class >= kArenaClasses) fatal("an MPI object is too large");
  a.live_blocks++;
  if (ArenaBlock* const block = a.free_list[size_class]) {
    a.free_list[size_class] = block->next_free;
    return block + 1;
  }
  const u64 size = u64(32) << size_class;
  const u64 at = a.used_end;
  if (at + size > a.mapped_end) arena_map_to(at + size);
  a.used_end = at + size;
  ArenaBlock* const block = reinterpret_cast<ArenaBlock*>(at);
  block->size_class = size_class;
  return block + 1;
}

/// Memory that the application will use: like arena_alloc(), but what is large is a mapping of its
/// own, behind a page for the header, and may fail: null.
inline void* application_memory(u64 bytes) {
  if (bytes < kArenaGiveBack) return arena_alloc(bytes);
  const u64 mapped = page_ceil(bytes) + kPageBytes;
  const Result<u64> at = sys::mmap(0, mapped, sys::kProtRead | sys::kProtWrite,
                                   sys::kMapPrivate | sys::kMapAnonymous);
  if (!at) return nullptr;
  ArenaBlock* const block = reinterpret_cast<ArenaBlock*>(at.value + kPageBytes) - 1;
  block->size_class = kOwnMapping;
  block->mapped_bytes = mapped;
  return block + 1;
}

/// The pages of a free block read as zero until it is used again.
inline void arena_drop_pages(ArenaBlock* block) {
  constexpr int kDontNeed = 4;
  const u64 first = page_ceil(reinterpret_cast<u64>(block + 1));
  const u64 last = page_floor(reinterpret_cast<u64>(block) + (u64(32) << block->size_class));
  if (last > first) (void)sys::call(SYS_madvise, first, last - first, kDontNeed);
}

/// Gives back what either of the two above has returned; null is nothing. `again`: the caller will
/// want as much the next time, so the pages stay until an image is cut (arena_tidy).
inline void arena_free(void* payload, bool again = false) {
  if (!payload) return;
  Arena& a = arena();
  ArenaBlock* const block = static_cast<ArenaBlock*>(payload) - 1;
  if (block->size_class == kOwnMapping) {
    (void)sys::munmap(sys::arg(payload) - kPageBytes, block->mapped_bytes);
    return;
  }
  const u64 size = u64(32) << block->size_class;
  if (size >= kArenaGiveBack && !(again && size <= kArenaKeep)) arena_drop_pages(block);
  block->next_free = a.free_list[block->size_class];
  a.free_list[block->size_class] = block;
  a.live_blocks--;
}

/// Before an image is cut: what nobody uses is not to be in it.
inline void arena_tidy() {
  u32 size_class = 0;
  while (u64(32) << size_class < kArenaGiveBack) size_class++;
  for (; size_class < kArenaClasses; size_class++)
    for (ArenaBlock* block = arena().free_list[size_class]; block; block = block->next_free)
      arena_drop_pages(block);
}

template <typename T>
T* arena_new() {
  return new (arena_alloc(sizeof(T))) T{};
}
template <typename T>
T* arena_array(u64 count) {
  return static_cast<T*>(arena_alloc(sizeof(T) * (count ? count : 1)));
}
template <typename T>
T* arena_copy(const T* from, u64 count) {
  T* const to = arena_array<T>(count);
  if (count) __builtin_memcpy(to, from, sizeof(T) * count);
  return to;
}

}  // namespace fermata::mpi
