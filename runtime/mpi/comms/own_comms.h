// SPDX-License-Identifier: Apache-2.0
// A communicator of its own for a window or a file: a duplicate that the application never sees.
//
// Making and freeing one costs as much as the rest of a small window. Of MPI_COMM_WORLD and
// MPI_COMM_SELF, which are never freed, the duplicates are kept: an object that is freed leaves
// its own to the next one, as persistent collectives do (persistent_collectives.h). Those of other
// communicators go with their object, for MPI_Comm_free would have to wait for all members if
// there were any.
#pragma once

#include "mpi/comms/comms.h"
#include "mpi/comms/leaving.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

/// A duplicate of `parent` that is idle on every member, else a new one. Collective over `parent`.
/// Preconditions: the call has been counted.
int kept_duplicate(CommSlot* parent, Comm** found);

/// Calls complete(slot) with a duplicate of `parent` for a new object. All of it belongs to one
/// call on `parent` that is counted: a rank that has entered it finishes it before it parks.
template <typename Complete>
int with_own_comm(CommSlot* parent, Complete complete) {
  Comm* own = nullptr;
  if (live_comm(parent) && (parent->flags & kSlotPredefined)) {
    CollectiveScope scope(parent);
    sweep_leaving();
    if (const int error = kept_duplicate(parent, &own)) return error;
    own->idle = false;
    return complete(own->slot);
  }
  CommSlot* made = nullptr;
  return comm_construct_duplicate(parent, &made, complete);
}

/// The object could not be made. Every member calls it, after members_agree().
void own_comm_discard(CommSlot* comm);

/// The object is gone. Every member calls it, outside the call on the object.
int own_comm_free(CommSlot* comm);

}  // namespace fermata::mpi
