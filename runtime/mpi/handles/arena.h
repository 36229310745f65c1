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
// does so with Gate::depth > 0, so a quiesce signal never finds a list half changed. Not checked:
// hot path, and a handler of a signal that calls MPI, which MPI forbids, would be blamed on us.
// Invariant: the whole state lives inside the arena, hence inside the image: Arena has no pointer
// elsewhere. Not checked: it has one type.
#pragma once

#include <new>

#include "halves/layout.h"
#include "sys/sys.h"

namespace fermata::mpi {

inline constexpr u32 kArenaClasses = 40;       // 32 bytes << class

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
[[noreturn]] void fatal(const char* what);

void arena_map_to(u64 end);

/// Maps the first piece. Idempotent only in that it must be called exactly once per application.
void arena_start();

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
void* application_memory(u64 bytes);

/// The pages of a free block read as zero until it is used again.
void arena_drop_pages(ArenaBlock* block);

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
void arena_tidy();

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
