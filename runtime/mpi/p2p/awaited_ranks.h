// SPDX-License-Identifier: Apache-2.0
// Whom a call waits for, by world rank: what safepoint/wait_edges.h tells the coordinator.
#pragma once

#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

struct Wanted {
  bool* senders;   // a message of it
  bool* receivers;  // that it takes what has been sent to it
};

/// A receive or probe that may match a message of this peer, or of any one.
void mark_senders(const Comm* comm, i32 source, bool* senders);

void mark_request(RequestSlot* slot, const Wanted& wanted);

}  // namespace fermata::mpi
