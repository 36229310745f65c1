// SPDX-License-Identifier: Apache-2.0
// Collectives of MPI programs that survive dead processes. Link with -lftcoll_mpi before the MPI's
// own libraries, or preload it; build it for the MPI below (build.sh).
//
// A communicator that is marked has its MPI_Bcast, MPI_Reduce, MPI_Allreduce and MPI_Barrier (and
// their _c and Fortran forms) over connections of the library's own, and these calls end with the
// same result at all processes that live, whoever dies. All other calls, and all other
// communicators, are the MPI's, and who is dead must not be a part of them. The job has to
// outlive the death of a process: docs/reference/survival.md says how.
//
// Errors are those of the MPI, through the communicator's error handler. Those that no MPI has
// (ftc_last() says FTC_ROOT_DIED, for instance) have error codes of their own.
#ifndef FTCOLL_MPI_H
#define FTCOLL_MPI_H

#include <ftcoll.h>
#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

// Marks an intracommunicator. All its processes call it, while all live: it exchanges addresses
// over the MPI. If they all are in one communicator that was marked before, nothing is exchanged,
// and they need not all live. Communicators of the same processes are marked in the same order
// everywhere. A duplicate of a marked communicator is not marked.
//
// FTCOLL_MARK=world in the environment marks MPI_COMM_WORLD in MPI_Init, for programs that do not
// know of this library; so does the info key "ftcoll" with the value "true" in MPI_Comm_set_info.
int ftc_mark(MPI_Comm comm);

// Whether a communicator is marked: 0 or 1.
int ftc_is_marked(MPI_Comm comm);

// How the last call of a marked communicator has ended here: FTC_OK, or what failed; FTC_ARGUMENT
// if it is not marked. As for ftc_allreduce(), `missing` and `room` are the caller's, and `missing`
// gets the dead ones whose contributions the last result lacks. `ended` may be NULL.
int ftc_last(MPI_Comm comm, ftc_ended *ended);

// The library's communicator behind a marked one: its persistent calls (ftcoll.h) and those by the
// MPI's names are made one after the other, in the order in which all its processes begin them. It
// stays as long as the marked one. Waiting for them counts as a call of the MPI, which makes
// progress meanwhile: threads do so as MPI_Init_thread allows. FTC_ARGUMENT if the communicator is
// not marked.
int ftc_comm_behind(MPI_Comm comm, ftc_comm **behind);

// For Fortran, with integers for communicators (with mpi_f08: comm%MPI_VAL):
//     call ftc_mark(comm, ierror)
//     call ftc_last(comm, code, contributions, missing, room)

#ifdef __cplusplus
}
#endif
#endif
