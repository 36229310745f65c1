// SPDX-License-Identifier: Apache-2.0
// What a rank would leave behind: itself, if whoever runs the job is killed, and files in /dev/shm.
#pragma once

#include "base/types.h"

namespace fermata::agent {

// Locks byte `rank` of the file for as long as this process lives (fcntl(2): children do not have
// the lock), so that a restart sees that it does. If another process of this host is this rank
// already, the process ends with a message. Where the file cannot be had, or its file system has no
// locks, there is no lock. Call once; nobody else in the process may open the file.
void lock_rank(const char* path, u32 rank);

// Leaves word in that byte that this rank has come to MPI_Finalize. The coordinator is told as
// well, but the way to it may be lost while the job continues.
void note_end(u32 rank);

// Removes the files of /dev/shm that the MPI library has mapped: those of this job's ranks on this
// host, all of which end now. The application's own files stay.
void remove_library_files();

}  // namespace fermata::agent
