// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/lower_start.h"

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

void lower_start() {
  front::for_each_predefined(
      [](Slot* slot, Kind kind, u32 canonical, void*) {
        slot->any_real = crossing().lower->predefined(kind, canonical);
      },
      nullptr);
  // slot_at() is understood for every predefined object, even where a front end shows another slot.
  for (u32 kind = 0; kind < kKindCount; kind++)
    for (u32 number = 1; number < kPredefinedCount; number++) {
      Slot* const slot = slot_at(Kind(kind), number);
      if ((slot->flags & kSlotPredefined) && slot->index == number)
        slot->any_real = crossing().lower->predefined(kind, number);
    }
  Core& core = state();
  core.lower.request_null = slot_at<kRequest>(kRequestNull)->real();
  core.lower.comm_null = slot_at<kComm>(kCommNull)->real();
  core.lower.everyone = {};
  core.lower.byte = slot_at<kDatatype>(kByte)->real();
  if (lower().Comm_dup(slot_at<kComm>(kCommSelf)->real(), &core.lower.self))
    fatal("the MPI library cannot duplicate MPI_COMM_SELF");
  // MPICH 4.0's MPI_Comm_create_group takes it for granted that the group of the parent has been
  // asked for in this process.
  RealGroup asked{};
  if (lower().Comm_dup(slot_at<kComm>(kCommWorld)->real(), &core.lower.bridge) ||
      lower().Comm_group(core.lower.bridge, &asked))
    fatal("the MPI library cannot duplicate MPI_COMM_WORLD");
  may_leak(lower().Group_free(&asked));
}

}  // namespace fermata::mpi
