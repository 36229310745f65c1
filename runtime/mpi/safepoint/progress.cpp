// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/progress.h"

#include "halves/mpi_calls.gen.h"
#include "mpi/gate/hooks.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/own_tags.h"
#include "mpi/p2p/receipts.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/rma/bells.h"
#include "mpi/safepoint/wait_edges.h"
#include "mpi/safepoint/obligations.h"

namespace fermata::mpi {
namespace {

/// Takes in one message that has arrived; those that are held came first. False if there is none.
bool take_one(Comm* comm, i32 source, TakeIn which) {
  if (which != TakeIn::kAsked) return bell_keep(comm, source) || unexpected_hold_one(comm, source);
  if (state().safepoint.park.failed) return false;
  if (bell_keep(comm, source)) return true;
  if (unexpected_take_held(comm, source)) return true;
  return held_from(comm->members[source]) == 0 && unexpected_take_one(comm, source);
}

/// Takes in what has arrived on one communicator. True if anything has.
bool take_in(Comm* comm, TakeIn which) {
  bool moved = false;
  for (i32 peer = 0; peer < peers_of(comm); peer++)
    while (takes_from(comm->members[peer], which) && take_one(comm, peer, which)) moved = true;
  return moved;
}

}  // namespace

bool takes_from(i32 rank, TakeIn which) {
  const Core& core = state();
  if (rank >= core.world.size) return which == TakeIn::kAll;
  if (which == TakeIn::kAll) return core.p2p.received[rank] < core.safepoint.expected[rank];
  if (which == TakeIn::kAsked)
    return core.safepoint.to_take && core.safepoint.park.applied_version != 0 &&
           core.p2p.received[rank] < core.safepoint.to_take[rank] + held_from(rank);
  for (const ThreadWait* wait = core.safepoint.waits; wait; wait = wait->next)
    if (wait->epoch == core.safepoint.park.epoch && wait->wanted.senders[rank]) return true;
  return false;
}

/// Lets the lower half get on with its own work. It looks for what nobody sends: MPICH does nothing
/// else in a probe that finds a message at once.
void poke_lower() {
  int flag;
  CanonStatus status;
  may_fail(lower().Iprobe(kAnySource, kNobodysTag, state().p2p.own_comm->real(), &flag, &status),
           "nothing is asked; whoever waits for what is wrong is told by his own call");
}

bool make_progress(TakeIn which) {
  bool moved = poll_synchronous();
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    const bool announced = request->mode == SendMode::kSynchronous && request->receiver >= 0;
    if (request->state == RequestState::kActive && !announced) moved |= complete_if_finished(slot);
  });
  for (Comm* comm = state().comms.live; comm; comm = comm->next) {
    auto* kept = comm->unexpected_first;
    for (; kept && state().p2p.unexpected_filling; kept = kept->next)
      if (kept->state == UnexpectedState::kFilling) moved |= unexpected_arrived(kept);
    if (!comm->ending) moved |= take_in(comm, which);
  }
  if (state().p2p.unexpected_filling) moved |= unexpected_matched_arrived();
  poke_lower();
  return moved;
}

}  // namespace fermata::mpi
