// SPDX-License-Identifier: Apache-2.0
// The collectives of a marked communicator, with the arguments and the errors of the MPI's. The
// wrappers of C and Fortran share them.
#ifndef FTCOLL_MPI_CALLS_H
#define FTCOLL_MPI_CALLS_H

#include "marks.h"

namespace ftcoll {

int barrier(MPI_Comm comm, Mark& mark);

int bcast(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm, Mark& mark);

// `root` < 0: an allreduce.
int reduce(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
           int root, MPI_Comm comm, Mark& mark);

}  // namespace ftcoll

#endif
