// SPDX-License-Identifier: Apache-2.0
#include "mpi/gate/clock.h"

#include "base/hash.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/core_state.h"
#include "sys/check.h"

namespace fermata::mpi {

ClockEntry* clock_new(u64 comm_id) {
  FERMATA_CHECK(comm_id != 0, "what has a clock has an id");
  const u32 used = crossing().clocks_count;
  for (u32 i = 0; i < used; i++) {
    if (clocks()[i].comm_id) continue;
    if (state().safepoint.targets) state().safepoint.targets[i] = 0;
    clocks()[i].seq = 0;
    compiler_barrier();
    clocks()[i].comm_id = comm_id;
    return &clocks()[i];
  }
  if (used == kClockCapacity) fatal("more communicators are alive than the clock table can hold");
  if (state().safepoint.targets) state().safepoint.targets[used] = 0;
  clocks()[used] = ClockEntry{comm_id, 0};
  compiler_barrier();
  crossing().clocks_count = used + 1;
  return &clocks()[used];
}

void clock_free(ClockEntry* clock) {
  if (clock == state().gate.unused_clock) return;
  FERMATA_CHECK(clock >= clocks() && clock < clocks() + crossing().clocks_count && clock->comm_id,
                "the clock of a communicator that ends is in use");
  clock->comm_id = 0;
  compiler_barrier();
  clock->seq = 0;
}

ClockEntry* clock_of_group(const i32* world_ranks, i32 count) {
  u64 hash = kHashStart;
  for (i32 i = 0; i < count; i++) hash = hash_word(hash, u32(world_ranks[i]));
  hash |= u64(1) << 63;  // never the id of a communicator
  const u32 used = crossing().clocks_count;
  for (u32 i = 0; i < used; i++)
    if (clocks()[i].comm_id == hash) return &clocks()[i];
  return clock_new(hash);
}

}  // namespace fermata::mpi
