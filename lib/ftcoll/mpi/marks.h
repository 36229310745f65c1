// SPDX-License-Identifier: Apache-2.0
// Which communicators are marked, and over which connections their calls go.
//
// Invariant: a world (all connections of a set of processes) is used for a communicator if all its
// members are in that world, which each of them can tell without a message: they have all made it.
#ifndef FTCOLL_MPI_MARKS_H
#define FTCOLL_MPI_MARKS_H

#include "ftcoll_mpi.h"

#include <vector>

namespace ftcoll {

// What belongs to a marked communicator.
struct Mark {
  ftc_comm* comm;
  int size;
  // Of the last call.
  int code = FTC_OK;
  ftc_ended ended = {};
  std::vector<int32_t> missing;
};

// The mark of a communicator, or nothing.
Mark* mark_of(MPI_Comm comm);

// Ends a call of `name` of a marked communicator: MPI_SUCCESS, or what its error handler was told.
int finish(MPI_Comm comm, Mark& mark, int ftc_code, const char* name);

// Tells the error handler of the communicator, and returns the error.
int raise_error(MPI_Comm comm, int error);

// Whether all of MPI_COMM_WORLD are connected.
bool spans_world();

// How long a call waits for a living process that does not enter it.
uint32_t deadline_ms();

// Frees all marks and connections, once all who live have come here. True if somebody is dead.
bool leave_all();

}  // namespace ftcoll

#endif
