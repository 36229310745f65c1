// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/awaited_ranks.h"

#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/requests.h"
#include "mpi/p2p/partitioned.h"

namespace fermata::mpi {
namespace {

bool is_other_rank(i32 rank) {
  return rank >= 0 && rank < state().world.size && rank != state().world.rank;
}

}  // namespace

void mark_senders(const Comm* comm, i32 source, bool* senders) {
  for (i32 peer = 0; peer < peers_of(comm); peer++) {
    const i32 rank = comm->members[peer];
    if ((source == kAnySource || source == peer) && is_other_rank(rank)) senders[rank] = true;
  }
}

void mark_request(RequestSlot* slot, const Wanted& wanted) {
  const Request* const request = request_of(slot);
  if (request->kind == RequestKind::kPartitioned) return mark_partitioned(request, wanted);
  const bool is_active = request->state == RequestState::kActive;
  if (is_send(request)) {
    const bool has_to_end = is_active || request->state == RequestState::kPending;
    if (has_to_end && is_other_rank(request->receiver)) wanted.receivers[request->receiver] = true;
  } else if (is_active && is_receive(request) && request->comm) {
    if (const Comm* const comm = comm_of(request->comm))
      mark_senders(comm, request->peer, wanted.senders);
  }
}

}  // namespace fermata::mpi
