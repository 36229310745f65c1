// SPDX-License-Identifier: Apache-2.0
#include "mpi/handles/arena.h"

#include "base/rank.gen.h"
#include "base/text.h"

namespace fermata::mpi {
namespace {

constexpr u64 kArenaStep = 0x10'0000;   // grown by whole mebibytes

}  // namespace

[[noreturn]] void fatal(const char* what) {
  Message text;
  text << "fermata: " << what << "\n";
  (void)sys::write(2, text.data, text.size);
  sys::exit_group(kExitLauncher);
}

void arena_map_to(u64 end) {
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

void arena_start() {
  const Result<u64> got =
      sys::mmap(kMpiArena, kArenaStep, sys::kProtRead | sys::kProtWrite,
                sys::kMapPrivate | sys::kMapAnonymous | sys::kMapFixed | sys::kMapNoReserve);
  if (!got) fatal("cannot map memory for MPI objects");
  arena().mapped_end = kMpiArena + kArenaStep;
  arena().used_end = kMpiArena + page_ceil(sizeof(Arena));
}

void* application_memory(u64 bytes) {
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

void arena_drop_pages(ArenaBlock* block) {
  constexpr int kDontNeed = 4;
  const u64 first = page_ceil(reinterpret_cast<u64>(block + 1));
  const u64 last = page_floor(reinterpret_cast<u64>(block) + (u64(32) << block->size_class));
  if (last > first) (void)sys::call(SYS_madvise, first, last - first, kDontNeed);
}

void arena_tidy() {
  u32 size_class = 0;
  while (u64(32) << size_class < kArenaGiveBack) size_class++;
  for (; size_class < kArenaClasses; size_class++)
    for (ArenaBlock* block = arena().free_list[size_class]; block; block = block->next_free)
      arena_drop_pages(block);
}

}  // namespace fermata::mpi
