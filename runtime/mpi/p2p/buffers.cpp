// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/buffers.h"

#include "frontend/callbacks.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/persistent.h"
#include "mpi/p2p/request.h"

namespace fermata::mpi {
namespace {

bool is_automatic(const void* buffer) {
  return buffer == reinterpret_cast<const void*>(kBufferAutomatic);
}

OwnBuffer* own_buffer_of(CommSlot* comm) {
  const Comm* const c = comm_of(comm);
  return c && c->buffer ? c->buffer : state().p2p.own_buffer;
}

void own_buffer_remove(OwnBuffer* buffer, i32 index) {
  buffer->used -= buffer->messages[index].bytes;
  buffer->messages[index] = buffer->messages[--buffer->count];
}

/// Forgets what has gone.
int own_buffer_tidy(OwnBuffer* buffer) {
  const LowerScope scope;
  for (i32 i = buffer->count - 1; i >= 0; i--) {
    int done = 0;
    CanonStatus status{};
    const int error = core::Test(&buffer->messages[i].request, &done, &status);
    if (done) own_buffer_remove(buffer, i);
    if (error) return error;
  }
  return kSuccess;
}

/// Waits until all that is in it has gone.
int own_buffer_flush(OwnBuffer* buffer) {
  int worst = kSuccess;
  while (true) {
    RequestSlot* request = nullptr;
    {
      const LowerScope scope;
      if (!buffer->count) return worst;
      request = buffer->messages[buffer->count - 1].request;
      own_buffer_remove(buffer, buffer->count - 1);
    }
    CanonStatus status{};
    if (const int error = core::Wait(&request, &status)) worst = error;
  }
}

int own_buffer_send(OwnBuffer* buffer, const void* data, int count, DatatypeSlot* datatype,
                    int dest, int tag, CommSlot* comm) {
  int room = 0, bytes = 0, error = kSuccess;
  {
    const LowerScope scope;
    error = lower().Pack_size(count, datatype->real(), comm->real(), &room);
  }
  if (error) return error;
  error = own_buffer_tidy(buffer);
  if (error) return error;
  const LowerScope scope;
  void* const packed = arena_alloc(u64(room) + 1);
  RequestSlot* request = nullptr;
  error = lower().Pack(data, count, datatype->real(), packed, room, &bytes, comm->real());
  if (!error && !is_automatic(buffer->base) && buffer->used + bytes > buffer->bytes)
    error = kErrBuffer;
  if (!error)
    error = core::Isend(packed, bytes, front::predefined<kDatatype>(kPacked), dest, tag, comm,
                        &request);
  if (error || request_of(request)->kind == RequestKind::kCompleted) {
    arena_free(packed);
    return error;
  }
  request_of(request)->kept_until_done = packed;
  request_of(request)->owns = true;
  if (buffer->count == buffer->room) {
    const i32 more = buffer->room ? 2 * buffer->room : 8;
    BufferedMessage* const grown = arena_array<BufferedMessage>(u64(more));
    for (i32 i = 0; i < buffer->count; i++) grown[i] = buffer->messages[i];
    arena_free(buffer->messages);
    buffer->messages = grown;
    buffer->room = more;
  }
  buffer->messages[buffer->count++] = {request, bytes};
  buffer->used += bytes;
  return kSuccess;
}

}  // namespace

int own_buffer_attach(OwnBuffer** place, void* base, i64 bytes) {
  const LowerScope scope;
  if (*place || bytes < 0) return kErrBuffer;
  OwnBuffer* const made = arena_new<OwnBuffer>();
  made->base = base;
  made->bytes = bytes;
  *place = made;
  return kSuccess;
}
int own_buffer_detach(OwnBuffer** place, void* address, int* size) {
  OwnBuffer* const buffer = *place;
  if (!buffer) return kErrBuffer;
  const int error = own_buffer_flush(buffer);
  *static_cast<void**>(address) = buffer->base;
  *size = int(buffer->bytes);
  const LowerScope scope;
  *place = nullptr;
  arena_free(buffer->messages);
  arena_free(buffer);
  return error;
}

void own_buffer_end(OwnBuffer** place) {
  void* base;
  int size;
  if (*place) (void)own_buffer_detach(place, &base, &size);
}

int own_buffer_flush_at_once(OwnBuffer* buffer, RequestSlot** request) {
  if (const int error = buffer ? own_buffer_flush(buffer) : int(kSuccess)) return error;
  *request = state().p2p.completed;
  return kSuccess;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Bsend(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag, CommSlot* comm) {
  if (OwnBuffer* const own = own_buffer_of(comm))
    return own_buffer_send(own, buf, count, datatype, dest, tag, comm);
  return bsend_lower(buf, count, datatype, dest, tag, comm);
}
int Ibsend(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag, CommSlot* comm,
           RequestSlot** request) {
  OwnBuffer* const own = own_buffer_of(comm);
  if (!own) return ibsend_lower(buf, count, datatype, dest, tag, comm, request);
  if (const int error = own_buffer_send(own, buf, count, datatype, dest, tag, comm)) return error;
  *request = state().p2p.completed;
  return kSuccess;
}

int Buffer_attach(void* buffer, int size) {
  Core& core = state();
  if (core.p2p.own_buffer || (core.p2p.attached_buffer && is_automatic(buffer))) return kErrBuffer;
  if (is_automatic(buffer)) return own_buffer_attach(&core.p2p.own_buffer, buffer, 0);
  return buffer_attach_lower(buffer, size);
}
int Buffer_detach(void* buffer_address, int* size) {
  if (state().p2p.own_buffer)
    return own_buffer_detach(&state().p2p.own_buffer, buffer_address, size);
  return buffer_detach_lower(buffer_address, size);
}
int Buffer_flush() {
  Core& core = state();
  if (core.p2p.own_buffer) return own_buffer_flush(core.p2p.own_buffer);
  if (!core.p2p.attached_buffer) return kSuccess;
  void* base = nullptr;
  int size = 0;
  const int error = buffer_detach_lower(&base, &size);
  return error ? error : buffer_attach_lower(base, size);
}
int Buffer_iflush(RequestSlot** request) {
  if (const int error = Buffer_flush()) return error;
  *request = state().p2p.completed;
  return kSuccess;
}

int Comm_attach_buffer(CommSlot* comm, void* buffer, int size) {
  Comm* const c = live_comm(comm);
  return c ? own_buffer_attach(&c->buffer, buffer, size) : int(kErrComm);
}
int Comm_detach_buffer(CommSlot* comm, void* buffer_address, int* size) {
  Comm* const c = live_comm(comm);
  return c ? own_buffer_detach(&c->buffer, buffer_address, size) : int(kErrComm);
}
int Comm_flush_buffer(CommSlot* comm) {
  Comm* const c = live_comm(comm);
  if (!c) return kErrComm;
  return c->buffer ? own_buffer_flush(c->buffer) : int(kSuccess);
}
int Comm_iflush_buffer(CommSlot* comm, RequestSlot** request) {
  Comm* const c = live_comm(comm);
  return c ? own_buffer_flush_at_once(c->buffer, request) : int(kErrComm);
}

}  // namespace fermata::mpi::core
