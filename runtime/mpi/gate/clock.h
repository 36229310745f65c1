// SPDX-License-Identifier: Apache-2.0
// The collective clock: how many collective calls this rank has begun on each communicator.
//
// The coordinator turns the clocks of all ranks into targets, the maximum over the members. A rank
// may stop only where it has no duty: no member waits for it in a collective call, that is, none of
// its clocks is behind its target, and nobody who must run on waits for a message of it (decision
// 0038). The rules are those of control/protocol, which is checked.
// Source: Xu and Cooperman, "Enabling Practical Transparent Checkpointing for MPI: A Topological
// Sort Approach" (2024); here with one coordinator instead of messages between ranks.
//
// Invariant: clocks()[i].comm_id != 0 exactly for communicators (and groups, for calls that are
//            collective over a group) this rank is a member of.
// Invariant: a communicator passes a barrier in the lower half (leaving.h) before its entry is
//            removed. Every member has then counted the same last call and is bound to finish it,
//            so no member can be asked to wait for one that has forgotten the communicator.
#pragma once

#include "base/hash.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

/// A new clock at 0. Its id is in no list of targets yet, so its target is 0 as well.
inline ClockEntry* clock_new(u64 comm_id) {
  const u32 used = crossing().clocks_count;
  for (u32 i = 0; i < used; i++) {
    if (clocks()[i].comm_id) continue;
    if (state().targets) state().targets[i] = 0;
    clocks()[i].seq = 0;
    compiler_barrier();
    clocks()[i].comm_id = comm_id;
    return &clocks()[i];
  }
  if (used == kClockCapacity) fatal("more communicators are alive than the clock table can hold");
  if (state().targets) state().targets[used] = 0;
  clocks()[used] = ClockEntry{comm_id, 0};
  compiler_barrier();
  crossing().clocks_count = used + 1;
  return &clocks()[used];
}

inline void clock_free(ClockEntry* clock) {
  if (clock == state().unused_clock) return;
  clock->comm_id = 0;
  compiler_barrier();
  clock->seq = 0;
}

/// The clock of calls that are collective over a group and not over a communicator
/// (group_calls.h). Its id is a hash of the members in their order, so all members agree on it.
/// Made by the first such call, and kept from then on.
inline ClockEntry* clock_of_group(const i32* world_ranks, i32 count) {
  u64 hash = kHashStart;
  for (i32 i = 0; i < count; i++) hash = hash_word(hash, u32(world_ranks[i]));
  hash |= u64(1) << 63;  // never the id of a communicator
  const u32 used = crossing().clocks_count;
  for (u32 i = 0; i < used; i++)
    if (clocks()[i].comm_id == hash) return &clocks()[i];
  return clock_new(hash);
}

inline void copy_needs() {
  Core& core = state();
  const u64 ranks = u64(core.world_size);
  if (!core.needed) {
    core.needed = arena_array<u64>(ranks);
    core.to_match = arena_array<u64>(ranks);
    core.to_take = arena_array<u64>(ranks);
  }
  for (u64 rank = 0; rank < ranks; rank++)
    core.needed[rank] = core.to_match[rank] = core.to_take[rank] = 0;
  for (u64 i = 0; i < crossing().needs_count && i < Mailbox::kCapacity; i++) {
    const Count& need = mailbox().needs[i];
    const u64 rank = rank_of_need(need);
    if (rank >= ranks) continue;
    switch (kind_of_need(need)) {
      case NeedKind::kMessage: core.needed[rank] = need.value; break;
      case NeedKind::kReceipt: core.to_match[rank] = need.value; break;
      case NeedKind::kRoom: core.to_take[rank] = need.value; break;
    }
  }
}

/// Copies the newest targets to Core::targets, by clock index, and what others need to Core::needed
/// and its kin, by rank. Returns their version, 0 if none.
/// The agent fills the lists before it stores targets_version, and stores the version again when it
/// refines them, so a copy is good if the version is the same before and after.
inline u64 refresh_targets() {
  Core& core = state();
  Crossing& c = crossing();
  for (;;) {
    const u64 version = __atomic_load_n(&c.targets_version, __ATOMIC_ACQUIRE);
    if (version == 0 || version == core.park.applied_version) return version;
    if (!core.targets) core.targets = arena_array<u64>(kClockCapacity);
    for (u32 i = 0; i < c.clocks_count; i++) core.targets[i] = 0;
    for (u64 t = 0; t < c.targets_count && t < Mailbox::kCapacity; t++) {
      const Count& target = mailbox().targets[t];
      for (u32 i = 0; i < c.clocks_count; i++)
        if (clocks()[i].comm_id == target.key) core.targets[i] = target.value;
    }
    copy_needs();
    if (__atomic_load_n(&c.targets_version, __ATOMIC_ACQUIRE) != version) continue;
    core.park.applied_version = version;
    return version;
  }
}

/// True if some member waits, or may come to wait, for this rank in a collective call.
/// Preconditions: refresh_targets() returned a version.
inline bool owes_collective() {
  const u32 used = crossing().clocks_count;
  for (u32 i = 0; i < used; i++)
    if (clocks()[i].comm_id && clocks()[i].seq < state().targets[i]) return true;
  return false;
}

/// Messages of this rank that have been counted, though the program has not matched them yet.
inline u64 kept_from(i32 rank) {
  u64 count = 0;
  for (const Comm* comm = state().comms; comm; comm = comm->next)
    for (const UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
      count += kept->counted && comm->members[kept->source] == rank;
  return count;
}
/// Those of them that are held.
inline u64 held_from(i32 rank) {
  u64 held = 0;
  for (const Comm* comm = state().comms; comm && state().unexpected_held; comm = comm->next)
    for (const UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
      held += kept->state == UnexpectedState::kHeld && comm->members[kept->source] == rank;
  return held;
}

/// True if this rank may not stand still: some member waits for it in a collective call, or another
/// rank waits for a message that it has not sent, or that it has not matched.
/// Preconditions: refresh_targets() returned a version.
inline bool has_duty() {
  if (owes_collective()) return true;
  const Core& core = state();
  if (core.ending) return false;  // whoever needs a message will get it from somebody else
  for (i32 rank = 0; rank < core.world_size; rank++)
    if (core.sent[rank] < core.needed[rank] ||
        (core.to_match[rank] && core.received[rank] < core.to_match[rank] + kept_from(rank)))
      return true;
  return false;
}

}  // namespace fermata::mpi
