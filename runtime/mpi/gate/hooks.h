// SPDX-License-Identifier: Apache-2.0
// What the rooms below ask of those above: declared here, defined where the comment says. Nothing
// else may be called upwards (tools/tidy_headers.py).
#pragma once

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

// What a call waits for that calls safe_point(): requests, or a message that is probed for.
struct Awaited {
  RequestSlot* const* requests = nullptr;
  i32 count = 0;
  const Comm* probed = nullptr;
  i32 source = 0;
  const front::RequestList* list = nullptr;  // instead of `requests`: those at these places in it,
  const i32* at = nullptr;                   // or, if null, the first ones

  RequestSlot* request(i32 i) const { return requests ? requests[i] : list->get(at ? at[i] : i); }
};

// safepoint/stopping.cpp: places where this rank may park.
void safe_point(const Awaited& awaited = {});
[[gnu::cold]] void leave_interrupted(bool may_call_functions);
[[gnu::cold]] void enter_collective_pending(ClockEntry* clock, bool all_have_come);

// safepoint/two_phase.cpp
[[gnu::cold]] bool wait_for_all_members(Slot* over);

// safepoint/progress.cpp: lets the lower half get on with its own work, as it does in every call.
void poke_lower();

// safepoint/sections.cpp: blocking reductions by functions of the application.
[[gnu::cold]] void begin_own_reduction();
[[gnu::cold]] void end_own_reduction();

// comms/leaving.cpp: the request that makes or ends a communicator has finished.
void comm_request_ended(CommSlot* comm);

// comms/persistent_collectives.cpp
void kept_collective_free(Request* request);
int kept_collective_start(RequestSlot* slot);

}  // namespace fermata::mpi
