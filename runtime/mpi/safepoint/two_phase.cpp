// SPDX-License-Identifier: Apache-2.0
// The two-phase algorithm, to compare with: a barrier before each blocking collective call, in
// which a rank can be stopped (run --collectives 2pc).
// Source: Garg, Price and Cooperman, "MANA for MPI" (2019), algorithm 1. It leaves open who lets a
// rank out of this barrier whose peers have left it before the request came; here targets do.
//
// It costs every call of every run, and makes a root wait for ranks that it need not wait for: a
// program that relies on a broadcast's root continuing gets stuck in it
// (docs/evidence/protocol.md).
#include "base/backoff.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {

/// Returns true when every member has come here. Nothing of the barrier is in an image: after a
/// restart each member that was in it begins it anew. So one that has left it may not be saved
/// before it has begun the call: the others would wait for it.
bool wait_for_all_members(Slot* over) {
  if (over->kind != kComm || clock_of(over) == state().gate.unused_clock) return false;
  CommSlot* const comm = slot_as<kComm>(over);
  for (;;) {
    const u32 rebuilds = state().safepoint.rebuilds;
    RealRequest real{};
    if (lower().Ibarrier(comm->real(), &real)) return false;  // the call itself will tell
    int flag = 0;
    for (Backoff backoff; !flag && rebuilds == state().safepoint.rebuilds; between_polls(backoff)) {
      CanonStatus status{};
      if (lower().Test(&real, &flag, &status)) return false;
      if (!flag && checkpoint_wanted()) safe_point();
    }
    if (flag) return true;
  }
}

}  // namespace fermata::mpi
