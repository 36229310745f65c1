// SPDX-License-Identifier: Apache-2.0
// Matched probes and receives: MPI_Mprobe, MPI_Mrecv and their kin. A message that the program has
// matched is out of the lower half's queue, and held for its handle (unexpected.h).
#pragma once

#include "halves/mpi_calls.gen.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// Matched probe: takes the message out of everybody's sight. It is received where the program asks
/// for it; should the rank park before that, it receives it as bytes (unexpected_fill_matched).
int probe_matched(int source, int tag, CommSlot* comm, int* flag, MessageSlot** message,
                  CanonStatus* status);

/// Delivers a matched message; it leaves the core state and its handle becomes null.
int receive_matched(void* buf, int count, DatatypeSlot* datatype, MessageSlot** message,
                    CanonStatus* status);

}  // namespace fermata::mpi
