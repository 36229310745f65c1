// SPDX-License-Identifier: Apache-2.0
// Buffers of MPI_Bsend that belong to a communicator or a session, those that the MPI provides
// (MPI_BUFFER_AUTOMATIC), and flushing (MPI-4.1, 3.6), which older MPIs do not have.
//
// A message that goes through one is packed into memory of ours and sent by a request that the
// application never sees; of the application's buffer the size alone counts. The process's own
// buffer (persistent.h) is the lower half's, and is flushed by detaching it and attaching it again.
//
// A communicator that was made from a session has the process's buffer, not the session's.
// MPI_Buffer_iflush and its like wait in the call.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

// What MPI_Bsend has put into a buffer that is no lower half's: buffers.h.
struct BufferedMessage {
  RequestSlot* request;
  i64 bytes;
};
struct OwnBuffer {
  void* base;  // the application's, or MPI_BUFFER_AUTOMATIC
  i64 bytes, used;
  i32 count, room;
  BufferedMessage* messages;
};

int own_buffer_attach(OwnBuffer** place, void* base, i64 bytes);
int own_buffer_detach(OwnBuffer** place, void* address, int* size);

/// With the object that it belongs to.
void own_buffer_end(OwnBuffer** place);

int own_buffer_flush_at_once(OwnBuffer* buffer, RequestSlot** request);

}  // namespace fermata::mpi
