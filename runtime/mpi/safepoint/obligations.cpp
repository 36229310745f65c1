// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/obligations.h"

#include "halves/crossing.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/p2p/unexpected.h"
#include "sys/check.h"

namespace fermata::mpi {
namespace {

void copy_obligations() {
  Core& core = state();
  const u64 ranks = u64(core.world.size);
  if (!core.safepoint.to_send) {
    core.safepoint.to_send = arena_array<u64>(ranks);
    core.safepoint.to_match = arena_array<u64>(ranks);
    core.safepoint.to_take = arena_array<u64>(ranks);
  }
  for (u64 rank = 0; rank < ranks; rank++)
    core.safepoint.to_send[rank] = core.safepoint.to_match[rank] = core.safepoint.to_take[rank] = 0;
  for (u64 i = 0; i < crossing().needs_count && i < Mailbox::kCapacity; i++) {
    const Count& edge = mailbox().needs[i];
    const u64 rank = peer_of_edge(edge);
    if (rank >= ranks) continue;
    switch (kind_of_edge(edge)) {
      case NeedKind::kMessage: core.safepoint.to_send[rank] = edge.value; break;
      case NeedKind::kReceipt: core.safepoint.to_match[rank] = edge.value; break;
      case NeedKind::kRoom: core.safepoint.to_take[rank] = edge.value; break;
    }
  }
}

}  // namespace

u64 refresh_targets() {
  Core& core = state();
  Crossing& c = crossing();
  for (;;) {
    const u64 version = __atomic_load_n(&c.targets_version, __ATOMIC_ACQUIRE);
    if (version == 0 || version == core.safepoint.park.applied_version) return version;
    if (!core.safepoint.targets) core.safepoint.targets = arena_array<u64>(kClockCapacity);
    for (u32 i = 0; i < c.clocks_count; i++) core.safepoint.targets[i] = 0;
    for (u64 t = 0; t < c.targets_count && t < Mailbox::kCapacity; t++) {
      const Count& target = mailbox().targets[t];
      for (u32 i = 0; i < c.clocks_count; i++)
        if (clocks()[i].comm_id == target.key) core.safepoint.targets[i] = target.value;
    }
    copy_obligations();
    if (__atomic_load_n(&c.targets_version, __ATOMIC_ACQUIRE) != version) continue;
    core.safepoint.park.applied_version = version;
    return version;
  }
}

bool owes_collective() {
  const u64* const targets = state().safepoint.targets;
  const u32 used = targets ? crossing().clocks_count : 0;
  for (u32 i = 0; i < used; i++)
    if (clocks()[i].comm_id && clocks()[i].seq < targets[i]) return true;
  return false;
}

u64 kept_from(i32 rank) {
  u64 count = 0;
  for (const Comm* comm = state().comms.live; comm; comm = comm->next)
    for (const UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
      count += kept->counted && comm->members[kept->source] == rank;
  return count;
}
u64 held_from(i32 rank) {
  u64 held = 0;
  const P2pState& p2p = state().p2p;
  for (const Comm* comm = state().comms.live; comm && p2p.unexpected_held; comm = comm->next)
    for (const UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
      held += kept->state == UnexpectedState::kHeld && comm->members[kept->source] == rank;
  return held;
}

bool has_obligation() {
  FERMATA_CHECK(state().safepoint.park.applied_version != 0, "targets are known where they count");
  if (owes_collective()) return true;
  const Core& core = state();
  const SafepointState& others = core.safepoint;
  if (core.world.ending) return false;  // who waits for a message will get it from somebody else
  for (i32 rank = 0; rank < core.world.size; rank++)
    if (core.p2p.sent[rank] < others.to_send[rank] ||
        (others.to_match[rank] &&
         core.p2p.received[rank] < others.to_match[rank] + kept_from(rank)))
      return true;
  return false;
}

}  // namespace fermata::mpi
