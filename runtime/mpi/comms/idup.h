// SPDX-License-Identifier: Apache-2.0
// MPI_Comm_idup: a communicator whose members need not wait for each other in the call.
//
// The lower half's non-blocking duplication is a request like that of any non-blocking collective,
// begun and counted on the parent; the members agree on the new id without a message, for it is
// made of the parent's id and the number of the call (comms.h). No image holds one in progress. The
// handle and the recipe are there at once; the communicator is not looked at, neither for messages
// nor for its topology, before the request has come to its end.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// The request of the duplication has come to its end, as the draining or the application sees it.
void idup_finish(CommSlot* comm);

}  // namespace fermata::mpi
