// SPDX-License-Identifier: Apache-2.0
// The end of a communicator. MPI_Comm_free is collective, but programs count on it to wait for
// nobody: the members of a ring free theirs in any order. So the barrier that an entry of the clock
// must outlast (clock.h, second invariant) is a non-blocking one, a request that the application
// never sees. The communicator is there until it ends: it is polled where communicators are made or
// freed, in a checkpoint, which no image is cut before, and in MPI_Finalize.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// Begins the end of a communicator. False if the members have to wait for each other in it: they
/// agree about duplicates then (persistent_collectives.h), or one is outside the job.
/// Preconditions: the call has been counted.
bool leave(CommSlot* comm);

/// Ends those communicators that all members have freed by now.
void sweep_leaving();

/// In MPI_Finalize, which every member comes to.
void await_leaving();

}  // namespace fermata::mpi
