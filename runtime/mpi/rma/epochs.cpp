// SPDX-License-Identifier: Apache-2.0
#include "mpi/rma/epochs.h"

#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/objects/groups.h"
#include "mpi/p2p/request.h"
#include "mpi/rma/bells.h"
#include "mpi/rma/epoch_order.h"
#include "mpi/rma/near_windows.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

constexpr i64 kOneShared = 1, kOneExclusive = i64(1) << 32, kOneWaiting = i64(1) << 48;
constexpr i64 kAnyShared = kOneExclusive - 1, kAnyExclusive = kOneWaiting - kOneExclusive;
constexpr i64 kAnyWaiting = ~(kOneWaiting - 1);
// What a shared lock is not compatible with, while its rank has time and afterwards.
constexpr i64 kBeforeShared = kAnyExclusive | kAnyWaiting, kBeforeImpatient = kAnyExclusive;
constexpr u64 kFairNs = 100'000'000;

// --- counters ----------------------------------------------------------------------------------

/// Adds to a counter of a member of the window. *before: its value until then.
int counter_add(const Window* window, i32 target, i64 index, i64 amount, i64* before) {
  const RealWin real = window->counters->real();
  const int error = lower().Fetch_and_op(&amount, before, slot_at<kDatatype>(abi::kInt64T)->real(),
                                         target, index, slot_at<kOp>(abi::kSum)->real(), real);
  return error ? error : lower().Win_flush(target, real);
}

/// Adds to a counter if none of the `conflicting` bits is set in it (*got).
int counter_try(const Window* window, i32 target, i64 index, i64 amount, i64 conflicting,
                bool* got) {
  i64 before = 0, ignored;
  const int error = counter_add(window, target, index, amount, &before);
  *got = !error && !(before & conflicting);
  return error || *got ? error : counter_add(window, target, index, -amount, &ignored);
}

/// Tries to get a lock without doors. `before`: what a shared one is not compatible with.
int far_try(const Window* window, i32 target, LockKind kind, i64 before, bool* got) {
  if (kind == LockKind::kShared) return counter_try(window, target, 0, kOneShared, before, got);
  int error = counter_try(window, 0, 1, kOneExclusive, kAnyShared, got);
  if (error || !*got) return error;
  error = counter_try(window, target, 0, kOneExclusive, kAnyShared | kAnyExclusive, got);
  i64 ignored;
  return error || *got ? error : counter_add(window, 0, 1, -kOneExclusive, &ignored);
}

int far_release(const Window* window, i32 target, LockKind kind) {
  i64 ignored;
  if (kind == LockKind::kShared) return counter_add(window, target, 0, -kOneShared, &ignored);
  const int error = counter_add(window, target, 0, -kOneExclusive, &ignored);
  return error ? error : counter_add(window, 0, 1, -kOneExclusive, &ignored);
}

// --- doors ---------------------------------------------------------------------------------------

bool door_try(const Window* window, i32 target, LockKind kind, i64 before) {
  i64* const door = door_of(window, target);
  const bool shares = kind == LockKind::kShared;
  const i64 amount = shares ? kOneShared : kOneExclusive;
  const i64 conflicting = shares ? before : kAnyShared | kAnyExclusive;
  i64 found = 0;
  while (!__atomic_compare_exchange_n(door, &found, found + amount, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_RELAXED))
    if (found & conflicting) return false;
  return true;
}

/// What was loaded and stored under the lock is visible to whoever gets it next.
void door_release(const Window* window, i32 target, LockKind kind) {
  const i64 amount = kind == LockKind::kShared ? kOneShared : kOneExclusive;
  __atomic_fetch_sub(door_of(window, target), amount, __ATOMIC_SEQ_CST);
}

bool doors_try_all(const Window* window, i64 before) {
  const i32 count = comm_of(window->comm)->size;
  for (i32 i = 0; i < count; i++) {
    if (door_try(window, i, LockKind::kShared, before)) continue;
    while (i-- > 0) door_release(window, i, LockKind::kShared);
    return false;
  }
  return true;
}

// --- locks ---------------------------------------------------------------------------------------

constexpr i32 kAllMembers = -1;

/// Tries to get a lock on a member, or the shared one on all.
int lock_try(const Window* window, i32 target, LockKind kind, i64 before, bool* got) {
  if (window->has_doors) {
    *got = target == kAllMembers ? doors_try_all(window, before)
                                 : door_try(window, target, kind, before);
    return kSuccess;
  }
  if (target == kAllMembers) return counter_try(window, 0, 1, kOneShared, before, got);
  return far_try(window, target, kind, before, got);
}

/// That this rank waits for an exclusive lock, where others see it.
class Waiting {
 public:
  Waiting(const Window* window, i32 target) : window_(window), target_(target) {}

  int say() {
    if (said_) return kSuccess;
    said_ = true;
    restarts_ = crossing().restarts;
    return add(kOneWaiting);
  }
  /// A restart has made new words, in which nobody waits.
  int take_back() {
    const bool counts = said_ && restarts_ == crossing().restarts;
    said_ = false;
    return counts ? add(-kOneWaiting) : int(kSuccess);
  }

 private:
  int add(i64 amount) const {
    if (window_->has_doors) {
      __atomic_fetch_add(door_of(window_, target_), amount, __ATOMIC_SEQ_CST);
      return kSuccess;
    }
    i64 ignored;
    const int error = counter_add(window_, 0, 1, amount, &ignored);
    return error ? error : counter_add(window_, target_, 0, amount, &ignored);
  }

  const Window* window_;
  i32 target_;
  u32 restarts_ = 0;
  bool said_ = false;
};

/// Waits for a lock that somebody else has.
[[gnu::noinline]] int lock_await(const Window* window, i32 target, LockKind kind) {
  constexpr u32 kTriesBeforeSaying = 4;  // a lock that is about to be free costs no more words
  Waiting waiting(window, target);
  const u64 since = sys::now_ns();
  for (u32 attempt = 1;; attempt++) {
    if (checkpoint_wanted()) {
      if (const int error = waiting.take_back()) return error;
      safe_point();
    }
    // Ranks that keep finding each other's attempts must not continue in step.
    const u32 pause = (attempt * 7 + u32(state().world.rank) * 13) % 16;
    {
      const CoreUnlocked open;  // whoever has the lock may wait for another thread of this rank
      for (u32 i = 0; i <= pause; i++) (void)sys::call(SYS_sched_yield);
    }
    poke_lower();  // the holder may need an answer of this rank's lower half
    const i64 before = sys::now_ns() - since < kFairNs ? kBeforeShared : kBeforeImpatient;
    bool got = false;
    int error = lock_try(window, target, kind, before, &got);
    if (error || got) {
      const int taken_back = waiting.take_back();
      return error ? error : taken_back;
    }
    if (kind == LockKind::kExclusive && attempt >= kTriesBeforeSaying) error = waiting.say();
    if (error) return error;
  }
}

int lock_acquire(const Window* window, i32 target, LockKind kind) {
  if (kind == LockKind::kUnchecked) return kSuccess;
  bool got = false;
  const int error = lock_try(window, target, kind, kBeforeShared, &got);
  return error || got ? error : lock_await(window, target, kind);
}

int lock_release(const Window* window, i32 target, LockKind kind) {
  if (kind == LockKind::kUnchecked) return kSuccess;
  if (window->has_doors && target != kAllMembers) {
    door_release(window, target, kind);
    return kSuccess;
  }
  if (window->has_doors) {
    for (i32 i = 0; i < comm_of(window->comm)->size; i++) door_release(window, i, kind);
    return kSuccess;
  }
  i64 ignored;
  return target == kAllMembers ? counter_add(window, 0, 1, -kOneShared, &ignored)
                               : far_release(window, target, kind);
}

// --- groups ------------------------------------------------------------------------------------

/// The members of a group as ranks in the window.
int peers_set(Peers* peers, const Window* window, const Group* group, bool unchecked) {
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

void peers_clear(Peers* peers) {
  arena_free(peers->ranks);
  *peers = Peers{};
}

/// Tells every peer; this rank itself by counting in *own.
int peers_tell(const Peers& peers, const Window* window, int tag, i32* own) {
  const i32 me = comm_of(window->comm)->rank;
  for (i32 i = 0; i < peers.count; i++) {
    if (peers.ranks[i] == me) ++*own;
    else if (const int error = tell_member(window, tag, peers.ranks[i])) return error;
  }
  return kSuccess;
}

/// Waits until every peer has told this rank.
int peers_await(const Peers& peers, const Window* window, int tag, i32* own) {
  const i32 me = comm_of(window->comm)->rank;
  for (i32 i = 0; i < peers.count; i++) {
    if (peers.ranks[i] == me) --*own;
    else if (const int error = await_member(window, tag, peers.ranks[i])) return error;
  }
  return kSuccess;
}

/// True if every peer has told this rank. `own`: how often it has told itself.
bool peers_arrived(const Peers& peers, const Window* window, int tag, i32 own) {
  const i32 me = comm_of(window->comm)->rank;
  for (i32 i = 0; i < peers.count; i++) {
    const i32 peer = peers.ranks[i];
    if (peer == me ? own <= 0 : !member_has_told(window, tag, peer)) return false;
  }
  return true;
}

}  // namespace

int locks_take_again(const Window* window) {
  const auto is_counted = [](LockKind kind) {
    return kind == LockKind::kShared || kind == LockKind::kExclusive;
  };
  int error = kSuccess;
  if (is_counted(window->all_locked))
    error = lock_acquire(window, kAllMembers, window->all_locked);
  for (i32 i = 0; i < comm_of(window->comm)->size && !error; i++)
    if (is_counted(window->locks[i])) error = lock_acquire(window, i, window->locks[i]);
  return error;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Win_fence(int assertion, WinSlot* win) {
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (within_epoch(window)) return kErrRmaSync;
  CollectiveScope scope(win);
  fence_begins(window, !(assertion & abi::kModeNosucceed));
  const BlockingCall open;
  int error = lower().Win_flush_all(win->real());
  if (!error) error = lower().Win_sync(win->real());
  if (!error) error = lower().Barrier(window->comm->real());
  return error ? error : lower().Win_sync(win->real());
}

int Win_start(GroupSlot* group, int assertion, WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  const Group* const g = members_of(group);
  if (!window || !g) return window ? kErrGroup : kErrWin;
  if (window->access.ranks || within_epoch(window)) return kErrRmaSync;
  const int error = peers_set(&window->access, window, g, assertion & abi::kModeNocheck);
  if (!error) epoch_opens(window);
  if (error || window->access.unchecked) return error;
  return peers_await(window->access, window, kTagPost, &window->own_posts);
}
int Win_post(GroupSlot* group, int assertion, WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  const Group* const g = members_of(group);
  if (!window || !g) return window ? kErrGroup : kErrWin;
  if (window->exposure.ranks) return kErrRmaSync;
  int error = peers_set(&window->exposure, window, g, assertion & abi::kModeNocheck);
  if (!error) error = lower().Win_sync(win->real());
  if (error || window->exposure.unchecked) return error;
  return peers_tell(window->exposure, window, kTagPost, &window->own_posts);
}
int Win_complete(WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (!window->access.ranks) return kErrRmaSync;
  int error = lower().Win_flush_all(win->real());
  if (!error) error = peers_tell(window->access, window, kTagComplete, &window->own_completes);
  peers_clear(&window->access);
  epoch_closes(window);
  return error;
}
int Win_wait(WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (!window->exposure.ranks) return kErrRmaSync;
  const int error = peers_await(window->exposure, window, kTagComplete, &window->own_completes);
  peers_clear(&window->exposure);
  return error ? error : lower().Win_sync(win->real());
}
int Win_test(WinSlot* win, int* flag) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (!window->exposure.ranks) return kErrRmaSync;
  *flag = peers_arrived(window->exposure, window, kTagComplete, window->own_completes);
  return *flag ? Win_wait(win) : int(kSuccess);
}

int Win_lock(int type, int target, int assertion, WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (target == kProcNull) return kSuccess;
  if (target < 0 || target >= comm_of(window->comm)->size) return kErrRank;
  if (type != kLockExclusive && type != kLockShared) return kErrLocktype;
  if (window->locks[target] != LockKind::kNone) return kErrRmaSync;
  if (const int error = lock_error(window, false)) return error;
  const LockKind kind = assertion & abi::kModeNocheck ? LockKind::kUnchecked
                        : type == kLockShared         ? LockKind::kShared
                                                      : LockKind::kExclusive;
  const int error = lock_acquire(window, target, kind);
  if (error) return error;
  window->locks[target] = kind;
  epoch_opens(window);
  return window->has_doors ? int(kSuccess) : lower().Win_sync(win->real());
}
int Win_unlock(int target, WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (target == kProcNull) return kSuccess;
  if (target < 0 || target >= comm_of(window->comm)->size) return kErrRank;
  const LockKind kind = window->locks[target];
  if (kind == LockKind::kNone) return kErrRmaSync;
  int error = lower().Win_flush(target, win->real());
  if (!error && !window->has_doors) error = lower().Win_sync(win->real());
  window->locks[target] = LockKind::kNone;
  epoch_closes(window);
  return error ? error : lock_release(window, target, kind);
}
int Win_lock_all(int assertion, WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  if (window->all_locked != LockKind::kNone) return kErrRmaSync;
  if (const int error = lock_error(window, true)) return error;
  const LockKind kind =
      assertion & abi::kModeNocheck ? LockKind::kUnchecked : LockKind::kShared;
  const int error = lock_acquire(window, kAllMembers, kind);
  if (error) return error;
  window->all_locked = kind;
  epoch_opens(window);
  return lower().Win_sync(win->real());
}
int Win_unlock_all(WinSlot* win) {
  LowerScope scope;
  Window* const window = window_of(win);
  if (!window) return kErrWin;
  const LockKind kind = window->all_locked;
  if (kind == LockKind::kNone) return kErrRmaSync;
  int error = lower().Win_flush_all(win->real());
  if (!error) error = lower().Win_sync(win->real());
  window->all_locked = LockKind::kNone;
  epoch_closes(window);
  return error ? error : lock_release(window, kAllMembers, kind);
}

}  // namespace fermata::mpi::core
