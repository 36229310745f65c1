// SPDX-License-Identifier: Apache-2.0
// A front end of a few lines, for tests of the parts of the MPI core that need neither a lower half
// nor a launcher.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "mpi/core.h"

namespace fermata::front {

__thread Gate tls_gate;
__thread mpi::Slot* tls_culprit;
mpi::Slot g_nulls[mpi::kKindCount][mpi::kPredefinedCount];

FERMATA_CALLBACK const char* name() { return "test"; }
FERMATA_CALLBACK u64 port_room() { return 256; }
FERMATA_CALLBACK bool objects_follow_world() { return false; }
FERMATA_CALLBACK bool refuses_nested_epochs() { return false; }
FERMATA_CALLBACK mpi::RequestSlot* RequestList::get(i32 i) const {
  return static_cast<mpi::RequestSlot**>(handles_)[i];
}
FERMATA_CALLBACK void RequestList::put(i32 i, mpi::RequestSlot* slot) const {
  static_cast<mpi::RequestSlot**>(handles_)[i] = slot;
}
FERMATA_CALLBACK StatusList::StatusList(void* statuses) : statuses_(statuses) {}
FERMATA_CALLBACK void StatusList::put(i32 i, const CanonStatus& status, int error) const {
  CanonStatus* const out = static_cast<CanonStatus*>(statuses_) + i;
  *out = status;
  out->error = error;
}
FERMATA_CALLBACK Slot* predefined(Kind kind, u32 canonical) {
  Slot* const slot = &g_nulls[kind][canonical];
  slot->index = canonical;
  slot->kind = kind;
  slot->flags = mpi::kSlotLive | mpi::kSlotPredefined;
  return slot;
}
FERMATA_CALLBACK void for_each_predefined(PredefinedVisitor, void*) {}
FERMATA_CALLBACK void call_user_op(void*, void*, void*, int*, mpi::DatatypeSlot*) {}
FERMATA_CALLBACK int call_copy_attr(Kind, void*, Slot*, int, void*, mpi::AttributeValue&,
                                    mpi::AttributeValue*, int*) {
  return 0;
}
FERMATA_CALLBACK int call_delete_attr(Kind, void*, Slot*, int, mpi::AttributeValue&, void*) {
  return 0;
}
FERMATA_CALLBACK void call_errhandler(Kind, void*, Slot*, int*) {}
FERMATA_CALLBACK i32 app_error_code(int error_class) { return error_class; }
FERMATA_CALLBACK int app_keyval(int keyval) { return keyval; }
FERMATA_CALLBACK int app_win_flavor(int canonical) { return canonical; }
FERMATA_CALLBACK int app_win_model(int canonical) { return canonical; }
FERMATA_CALLBACK int app_rank(int canonical) { return canonical; }
FERMATA_CALLBACK int call_grequest_query(void*, void*, CanonStatus*) { return 0; }
FERMATA_CALLBACK int call_grequest_free(void*, void*) { return 0; }
FERMATA_CALLBACK int call_grequest_cancel(void*, void*, int) { return 0; }
FERMATA_CALLBACK void peer_counts(mpi::CommSlot*, int*, int*) {}
FERMATA_CALLBACK void degree_counts(mpi::CommSlot*, int*, int*) {}

}  // namespace fermata::front

using namespace fermata;
using namespace fermata::mpi;

#define EXPECT(condition)                                                    \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

inline void map_at(void* address, u64 bytes) {
  if (mmap(address, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1,
           0) == MAP_FAILED)
    perror("mmap"), exit(1);
}

/// The table of slots is mapped by map_tables(); its predefined part belongs to the front end.
inline void map_slots() {
  for (u64 kind = 0; kind < kKindCount; kind++)
    map_at(slot_at(Kind(kind), 0), kFirstDynamic * sizeof(Slot));
  map_tables();
}

/// This process is rank 0 of two, and `world` their communicator. The MPI library below has the
/// calls of `mpi`. Precondition: map_slots(), and the crossing is mapped.
inline void start_rank_of_two(MpiCalls& mpi, Comm& world, CommSlot& slot) {
  static LowerCalls calls{};
  static i32 members[] = {0, 1};
  calls.mpi = &mpi;
  crossing().lower = &calls;
  Core& core = state();
  core.world.size = 2;
  core.p2p.sent = arena_array<u64>(2);
  core.p2p.received = arena_array<u64>(2);
  world.members = members;
  world.size = 2;
  world.remote_size = -1;
  world.slot = &slot;
  slot.object = &world;
  core.comms.live = &world;
}
