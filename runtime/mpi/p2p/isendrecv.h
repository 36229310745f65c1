// SPDX-License-Identifier: Apache-2.0
// MPI_Isendrecv and MPI_Isendrecv_replace: one request for a send and a receive. What is sent is
// packed first and kept by the send, a request that the application never sees, so the request that
// it waits for is the receive's alone, and its buffers are its own when that has ended.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// Sends `bytes` packed bytes from arena memory, which is freed when they have gone.
int send_kept(void* packed, int bytes, int dest, int tag, CommSlot* comm);

}  // namespace fermata::mpi
