// SPDX-License-Identifier: Apache-2.0
// Persistent collective calls by the name that an MPI has for them: PERSISTENT(Bcast_init)(...).
#ifndef PERSISTENT_H
#define PERSISTENT_H

#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#define PERSISTENT(call) MPIX_##call
#else
#define PERSISTENT(call) MPI_##call
#endif

#endif
