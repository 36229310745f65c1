// SPDX-License-Identifier: Apache-2.0
#include "mpi/rma/near_windows.h"

#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/comms/comms.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/slots.h"
#include "mpi/objects/infos.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// Doors of windows that a restart brings back begin as new ones: nobody holds or waits.
void clear_doors_taken(u64 first) {
  for (u64 i = 0; i < kDoors; i++)
    if (state().rma.doors_taken[i / 64] >> i % 64 & 1)
      __builtin_memset(reinterpret_cast<void*>(first + i * kDoorBytes), 0, kDoorBytes);
}

/// Makes the doors of all ranks of a host, `ranks` of the communicator `node`; or none, in all of
/// them. Returns the error of agreeing on that.
int make_doors(RealComm node, const i32* ranks, int count) {
  Core& core = state();
  void* base = nullptr;
  int error = lower().Win_allocate_shared((kDoors + 1) * kDoorBytes, 1, core.lower.apart, node,
                                          &base, &core.lower.door_window);
  for (int i = 0; i < count && !error; i++) {
    i64 size;
    int unit;
    error = lower().Win_shared_query(core.lower.door_window, i, &size, &unit, &base);
    const u64 first = (sys::arg(base) + kDoorBytes - 1) / kDoorBytes * kDoorBytes;
    if (i == 0) core.lower.doors = first;
    core.rma.door_segments[ranks[i]] = i64(first - core.lower.doors);
    if (ranks[i] == core.world.rank) clear_doors_taken(first);
  }
  int worst = error;
  error = lower().Allreduce(&error, &worst, 1, slot_at<kDatatype>(kInt)->real(),
                            slot_at<kOp>(abi::kMax)->real(), node);
  if (error || worst) core.lower.doors = 0;
  return error;
}

// --- the application's memory --------------------------------------------------------------------

u64 window_pages(const Window* window) {
  return page_ceil(u64(window->size ? window->size : 1));
}

// --- the real window ----------------------------------------------------------------------------

bool has_shared_memory(const Window* window) {
  return window->flavor == kWinFlavorAllocate || window->flavor == kWinFlavorShared;
}

/// Which whole pages hold the memory of a member, and how far from their beginning it begins.
struct MemberPages {
  u64 start, bytes, offset;
};
MemberPages pages_of_member(const Window* window, i32 rank) {
  const u64 size = u64(window->members[rank].size);
  u64 at = 0;  // of MPI_Win_allocate the own memory alone is in this process, at a page
  if (window->flavor == kWinFlavorShared) {
    at = window->shared->address;
    for (i32 i = 0; i < rank; i++) at += u64(window->members[i].size);
  } else if (rank == comm_of(window->comm)->rank) {
    at = sys::arg(window->base);
  }
  return {page_floor(at), page_ceil(at + size) - page_floor(at), at - page_floor(at)};
}

/// The size of this rank's segment of the real window.
i64 segment_bytes(const Window* window) {
  const i32 rank = comm_of(window->comm)->rank;
  if (window->size == 0) return rank ? 0 : kPageBytes;  // there is to be something
  return i64(kPageBytes + pages_of_member(window, rank).bytes);
}

/// Brings the pages of one member's memory together with those of its segment in this process.
bool share_member(Window* window, i32 rank, u64 segment) {
  const u64 pages = page_ceil(segment);  // where in it the memory's are to be
  const MemberPages memory = pages_of_member(window, rank);
  window->members[rank].before = i64(pages - segment + memory.offset);
  window->members[rank].near_offset = i64(pages + memory.offset - window->counters->near_base);
  if (window->flavor == kWinFlavorShared)
    return launcher().share(memory.start, pages, memory.bytes) == 0;
  if (rank != comm_of(window->comm)->rank) return true;
  if (window->ranks == 1 && !launcher().renew_lower(pages, memory.bytes, true)) return false;
  return (window->is_new ? launcher().share : launcher().share_again)(pages, memory.start,
                                                                      memory.bytes) == 0;
}

/// Finds the segments of a real window of shared memory.
bool adopt_segments(Window* window) {
  const Comm* const comm = comm_of(window->comm);
  window->counters->near_base = 0;
  for (i32 rank = 0; rank < comm->size; rank++) {
    if (window->members[rank].size == 0) continue;
    i64 size;
    int unit;
    void* segment = nullptr;
    if (lower().Win_shared_query(window->slot->real(), rank, &size, &unit, &segment) || !segment)
      return false;
    if (!window->counters->near_base) window->counters->near_base = sys::arg(segment);
    if (!share_member(window, rank, sys::arg(segment))) return false;
  }
  return true;
}

/// How many lines the door of a window of so many members takes, with its bells (bells.h).
u64 door_lines(u64 members) {
  return (sizeof(i64) + 2 * members * sizeof(u32) + kDoorBytes - 1) / kDoorBytes;
}

void mark_doors(i64 door, u64 lines, bool taken) {
  for (u64 i = u64(door); i < u64(door) + lines; i++) {
    u64& word = state().rma.doors_taken[i / 64];
    word = taken ? word | u64(1) << i % 64 : word & ~(u64(1) << i % 64);
  }
}

}  // namespace

int find_neighbours() {
  Core& core = state();
  const u64 world = u64(core.world.size);
  if (!core.rma.neighbours) core.rma.neighbours = arena_array<bool>(world);
  if (!core.rma.door_segments) core.rma.door_segments = arena_array<i64>(world);
  core.lower.doors = 0;
  core.lower.door_window = {};
  __builtin_memset(core.rma.neighbours, 0, world * sizeof(bool));
  if (lower().Info_create(&core.lower.apart) ||
      lower().Info_set(core.lower.apart, "alloc_shared_noncontig", "true"))
    core.lower.apart = no_info();
  RealComm node{};
  int size = 0;
  if (lower().Comm_split_type(slot_at<kComm>(kCommWorld)->real(), kCommTypeShared, 0, no_info(),
                              &node))
    return kSuccess;  // then this rank is no neighbour of any
  int error = lower().Comm_size(node, &size);
  i32* const ranks = arena_array<i32>(u64(size));
  if (!error)
    error = lower().Allgather(&core.world.rank, sizeof(i32), core.lower.byte, ranks, sizeof(i32),
                              core.lower.byte, node);
  for (int i = 0; i < size && !error; i++) core.rma.neighbours[ranks[i]] = true;
  if (!error) error = make_doors(node, ranks, size);
  arena_free(ranks);
  may_leak(lower().Comm_free(&node));
  return error;
}

bool are_neighbours(const Comm* comm) {
  for (i32 i = 0; i < comm->size; i++) {
    const i32 rank = comm->local_members[i];
    if (rank >= state().world.size || !state().rma.neighbours[rank]) return false;
  }
  return true;
}

bool window_map(Window* window) {
  const Result<u64> at = sys::mmap(0, window_pages(window), sys::kProtRead | sys::kProtWrite,
                                   sys::kMapPrivate | sys::kMapAnonymous);
  window->base = at ? reinterpret_cast<void*>(at.value) : nullptr;
  return bool(at);
}

void window_unmap(const Window* window) {
  if (window->flavor == kWinFlavorAllocate && window->base)
    launcher().unshare(sys::arg(window->base), window_pages(window));
}

void unshare_lone_member(const Window* window) {
  if (window->ranks != 1 || !has_shared_memory(window) || !window->members[0].size) return;
  const u64 at = u64(window->members[0].near_offset) + window->counters->near_base;
  (void)launcher().renew_lower(page_floor(at), pages_of_member(window, 0).bytes, false);
}

int begin_lower_epoch(RealWin real) {
  const int error = lower().Win_set_errhandler(real, slot_at<kErrhandler>(kErrorsReturn)->real());
  return error ? error : lower().Win_lock_all(abi::kModeNocheck, real);
}

int make_near(Window* window, bool* is_near) {
  const Comm* const comm = comm_of(window->comm);
  window->direct_ranks = 0;
  if (!has_shared_memory(window) || !are_neighbours(comm)) return kSuccess;
  enum { kMade, kUnusable, kNone };
  RealWin* const real = &window->slot->real();
  void* base = nullptr;
  int outcome = kNone;
  if (!lower().Win_allocate_shared(segment_bytes(window), 1, state().lower.apart,
                                   window->comm->real(), &base, real))
    outcome = adopt_segments(window) ? kMade : kUnusable;
  const bool has_epoch = outcome == kMade && begin_lower_epoch(*real) == kSuccess;
  if (!has_epoch && outcome == kMade) outcome = kUnusable;
  if (const int error = largest_of_members(window->comm, outcome, &outcome)) return error;
  if (outcome == kUnusable && has_epoch) may_leak(lower().Win_unlock_all(*real));
  if (outcome == kUnusable) {
    if (window->counters->near_base) unshare_lone_member(window);
    may_leak(lower().Win_free(real));
  }
  *is_near = outcome == kMade;
  if (*is_near) window->direct_ranks = comm->size;
  return kSuccess;
}

i64* door_of(const Window* window, i32 target) {
  return reinterpret_cast<i64*>(state().lower.doors + u64(window->members[target].door_offset));
}

i64 door_take(u64 members) {
  const Core& core = state();
  const u64 lines = door_lines(members);
  u64 free = 0;  // lines in a row
  for (u64 i = 0; i < kDoors; i++) {
    free = core.rma.doors_taken[i / 64] >> i % 64 & 1 ? 0 : free + 1;
    if (free < lines) continue;
    const i64 door = i64(i + 1 - lines);
    mark_doors(door, lines, true);
    if (core.lower.doors)
      __builtin_memset(reinterpret_cast<void*>(core.lower.doors +
                                               u64(core.rma.door_segments[core.world.rank]) +
                                               u64(door) * kDoorBytes),
                       0, lines * kDoorBytes);
    return door;
  }
  return -1;
}
void door_give_back(const Window* window) {
  if (window->door >= 0) mark_doors(window->door, door_lines(u64(window->ranks)), false);
}

void find_doors(Window* window) {
  const Core& core = state();
  const Comm* const comm = comm_of(window->comm);
  bool found = core.lower.doors && are_neighbours(comm);
  for (i32 i = 0; i < comm->size && found; i++) {
    WindowMember& member = window->members[i];
    found = member.door >= 0;
    member.door_offset =
        core.rma.door_segments[comm->local_members[i]] + member.door * i64(kDoorBytes);
  }
  __builtin_memset(window->heard, 0, 2 * u64(comm->size) * sizeof(u32));
  compiler_barrier();
  window->has_doors = found;  // last: another thread may look meanwhile, in bell_keep()
}

}  // namespace fermata::mpi
