// SPDX-License-Identifier: Apache-2.0
// Epochs of one-sided communication, built on flushes, messages and counters (see windows.h).
//
//   fence              flush, barrier: what every member has begun is complete before any goes on
//   post/start         an empty message from each target tells the origin that it may begin
//   complete/wait      flush; an empty message from each origin tells the target that it is done
//   lock, lock_all     two counters per member, in its upper memory, changed by MPI_Fetch_and_op
//
// counter[0] of a member: locks on its window. counter[1] of rank 0: who locks anything at all.
// Each holds the number of exclusive holders in its high word, of shared ones in its low word:
//
//                   counter[1] of rank 0                counter[0] of the target
//   exclusive lock  + exclusive, unless any shared      + exclusive, unless any other
//   shared lock     -                                   + shared, unless any exclusive
//   lock_all        + shared, unless any exclusive      -
//
// Who adds and finds that it may not takes its own addition back and tries again later; between two
// tries it holds nothing, so it may be stopped there. (Compare-and-swap would do it in one step,
// but Open MPI 4.1's crashes on the own rank.)
//
// Invariant: a lock held is counted exactly once, and the counters are saved with their owner.
#pragma once

#include "mpi/windows.h"

namespace fermata::mpi {

inline constexpr int kTagPost = 1, kTagComplete = 2;
inline constexpr i64 kOneShared = 1, kOneExclusive = i64(1) << 32;
inline constexpr i64 kAnyShared = kOneExclusive - 1, kAnyExclusive = ~kAnyShared;

// --- counters ----------------------------------------------------------------------------------

/// Adds to a counter of a member of the window. *before: its value until then.
inline int counter_add(const Window* window, i32 target, i64 index, i64 amount, i64* before) {
  const u64 real = window->counters->real;
  const int error =
      lower().Fetch_and_op(&amount, before, slot_at(kDatatype, abi::kInt64T)->real, target, index,
                           slot_at(kOp, abi::kSum)->real, real);
  return error ? error : lower().Win_flush(target, real);
}

/// Adds to a counter as soon as none of the `conflicting` bits is set in it.
inline int counter_acquire(Window* window, i32 target, i64 index, i64 amount, i64 conflicting) {
  for (u32 attempt = 1;; attempt++) {
    i64 before = 0, ignored;
    int error = counter_add(window, target, index, amount, &before);
    if (error || !(before & conflicting)) return error;
    error = counter_add(window, target, index, -amount, &ignored);
    if (error) return error;
    safe_point();
    // Ranks that keep finding each other's attempts must not go on in step.
    const u32 pause = (attempt * 7 + u32(state().world_rank) * 13) % 16;
    const OpenBooks open;  // whoever has the lock may wait for another thread of this rank
    for (u32 i = 0; i <= pause; i++) (void)sys::call(SYS_sched_yield);
  }
}

inline int lock_acquire(Window* window, i32 target, LockKind kind) {
  if (kind == LockKind::kShared)
    return counter_acquire(window, target, 0, kOneShared, kAnyExclusive);
  if (kind != LockKind::kExclusive) return kSuccess;
  const int error = counter_acquire(window, 0, 1, kOneExclusive, kAnyShared);
  return error ? error
               : counter_acquire(window, target, 0, kOneExclusive, kAnyShared | kAnyExclusive);
}

inline int lock_release(const Window* window, i32 target, LockKind kind) {
  i64 ignored;
  if (kind == LockKind::kShared) return counter_add(window, target, 0, -kOneShared, &ignored);
  if (kind != LockKind::kExclusive) return kSuccess;
  const int error = counter_add(window, target, 0, -kOneExclusive, &ignored);
  return error ? error : counter_add(window, 0, 1, -kOneExclusive, &ignored);
}

// --- groups ------------------------------------------------------------------------------------

/// The members of a group as ranks in the window.
inline int peers_set(Peers* peers, const Window* window, const Group* group, bool unchecked) {
  const Comm* const comm = comm_of(window->comm);
  const Group members{comm->size, comm->rank, comm->local_members};
  i32* const ranks = arena_array<i32>(u64(group->size));
  for (i32 i = 0; i < group->size; i++) {
    ranks[i] = position_in(&members, group->ranks[i]);
    if (ranks[i] != kUndefined) continue;
    arena_free(ranks);
    return kErrGroup;
  }
  *peers = Peers{ranks, group->size, unchecked};
  return kSuccess;
}

inline void peers_clear(Peers* peers) {
  arena_free(peers->ranks);
  *peers = Peers{};
}

/// Sends an empty message to every peer; to this rank itself by counting in *own.
inline int peers_tell(const Peers& peers, const Window* window, int tag, i32* own) {
  const i32 me = comm_of(window->comm)->rank;
  for (i32 i = 0; i < peers.count; i++) {
    if (peers.ranks[i] == me) {
      ++*own;
      continue;
    }
    const int error = send_blocking(nullptr, 0, slot_at(kDatatype, kByte),
                                    peers.ranks[i], tag, window->comm);
    if (error) return error;
  }
  return kSuccess;
}

/// Waits for an empty message from every peer.
inline int peers_await(const Peers& peers, const Window* window, int tag, i32* own) {
  const i32 me = comm_of(window->comm)->rank;
  for (i32 i = 0; i < peers.count; i++) {
    if (peers.ranks[i] == me) {
      --*own;
      continue;
    }
    const int error = receive_blocking(nullptr, 0, slot_at(kDatatype, kByte), peers.ranks[i], tag,
                                       window->comm, nullptr);
    if (error) return error;
  }
  return kSuccess;
}

/// True if a message of every peer is here.
inline bool peers_arrived(const Peers& peers, const Window* window, int tag) {
  const i32 me = comm_of(window->comm)->rank;
  for (i32 i = 0; i < peers.count; i++) {
    int flag = 0;
    Early* early;
    CanonStatus status;
    if (peers.ranks[i] == me) continue;
    if (probe_once(peers.ranks[i], tag, window->comm, &flag, &early, &status) || !flag)
      return false;
  }
  return true;
}

namespace core {

inline int Win_fence(int, Slot* win) {
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  CollectiveScope scope(win);
  const BlockingCall open;
  int error = lower().Win_flush_all(win->real);
  if (!error) error = lower().Win_sync(win->real);
  if (!error) error = lower().Barrier(window->comm->real);
  return error ? error : lower().Win_sync(win->real);
}

inline int Win_start(Slot* group, int assertion, Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  const Group* const g = members_of(group);
  if (!window || !g) return window ? kErrGroup : kErrWin;
  if (window->access.ranks) return kErrRmaSync;
  const int error = peers_set(&window->access, window, g, assertion & abi::kModeNocheck);
  if (error || window->access.unchecked) return error;
  return peers_await(window->access, window, kTagPost, &window->own_posts);
}
inline int Win_post(Slot* group, int assertion, Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  const Group* const g = members_of(group);
  if (!window || !g) return window ? kErrGroup : kErrWin;
  if (window->exposure.ranks) return kErrRmaSync;
  int error = peers_set(&window->exposure, window, g, assertion & abi::kModeNocheck);
  if (!error) error = lower().Win_sync(win->real);
  if (error || window->exposure.unchecked) return error;
  return peers_tell(window->exposure, window, kTagPost, &window->own_posts);
}
inline int Win_complete(Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (!window->access.ranks) return kErrRmaSync;
  int error = lower().Win_flush_all(win->real);
  if (!error) error = peers_tell(window->access, window, kTagComplete, &window->own_completes);
  peers_clear(&window->access);
  return error;
}
inline int Win_wait(Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (!window->exposure.ranks) return kErrRmaSync;
  const int error = peers_await(window->exposure, window, kTagComplete, &window->own_completes);
  peers_clear(&window->exposure);
  return error ? error : lower().Win_sync(win->real);
}
inline int Win_test(Slot* win, int* flag) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (!window->exposure.ranks) return kErrRmaSync;
  *flag = peers_arrived(window->exposure, window, kTagComplete);
  return *flag ? Win_wait(win) : int(kSuccess);
}

inline int Win_lock(int type, int target, int assertion, Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (target == kProcNull) return kSuccess;
  if (target < 0 || target >= comm_of(window->comm)->size) return kErrRank;
  if (type != kLockExclusive && type != kLockShared) return kErrLocktype;
  if (window->locks[target] != LockKind::kNone) return kErrRmaSync;
  const LockKind kind = assertion & abi::kModeNocheck ? LockKind::kUnchecked
                        : type == kLockShared         ? LockKind::kShared
                                                      : LockKind::kExclusive;
  const int error = lock_acquire(window, target, kind);
  if (error) return error;
  window->locks[target] = kind;
  return lower().Win_sync(win->real);
}
inline int Win_unlock(int target, Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (target == kProcNull) return kSuccess;
  if (target < 0 || target >= comm_of(window->comm)->size) return kErrRank;
  const LockKind kind = window->locks[target];
  if (kind == LockKind::kNone) return kErrRmaSync;
  int error = lower().Win_flush(target, win->real);
  if (!error) error = lower().Win_sync(win->real);
  window->locks[target] = LockKind::kNone;
  return error ? error : lock_release(window, target, kind);
}
inline int Win_lock_all(int assertion, Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (window->all_locked != LockKind::kNone) return kErrRmaSync;
  const bool unchecked = assertion & abi::kModeNocheck;
  const int error =
      unchecked ? int(kSuccess) : counter_acquire(window, 0, 1, kOneShared, kAnyExclusive);
  if (error) return error;
  window->all_locked = unchecked ? LockKind::kUnchecked : LockKind::kShared;
  return lower().Win_sync(win->real);
}
inline int Win_unlock_all(Slot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  const LockKind kind = window->all_locked;
  if (kind == LockKind::kNone) return kErrRmaSync;
  int error = lower().Win_flush_all(win->real);
  if (!error) error = lower().Win_sync(win->real);
  window->all_locked = LockKind::kNone;
  i64 ignored;
  return error || kind == LockKind::kUnchecked
             ? error
             : counter_add(window, 0, 1, -kOneShared, &ignored);
}

}  // namespace core
}  // namespace fermata::mpi
