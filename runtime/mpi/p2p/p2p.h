// SPDX-License-Identifier: Apache-2.0
// Point-to-point messages.
//
// Bookmarks: a message is counted for its receiver when its send is begun, and for its sender when
// its bytes have come in, or when it is held (unexpected.h). When all ranks are parked and both
// sides agree for every pair of ranks, nothing is in flight. MPI_PROC_NULL has no rank and is never
// counted.
//
// A blocking receive may wait for a rank that has parked, so it is a posted receive and a loop of
// polls, and the loop is a place where this rank can park. It takes a request slot only when that
// happens. A blocking send is the real one, and tells the agent whom it is for, who asks that rank
// for room; during a checkpoint, among threads, and if it is synchronous, it is a request and a
// loop as well.
//
// Invariant: an active send needs no recipe: in the lower half it ends before an image is cut; an
//            active receive and a persistent request carry a complete one. Checked where a rank
//            is saved (check_drained), and where a restart makes them again.
#pragma once

#include "base/backoff.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/references.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/receipts.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {

inline void count_sent(CommSlot* comm, int dest, int tag) {
  if (FERMATA_UNLIKELY(dest < 0)) return;
  const Comm* const c = comm_of(comm);
  state().p2p.sent[c->members[dest]]++;
  if (FERMATA_UNLIKELY(state().p2p.synchronous != nullptr))
    note_behind(c->id, c->members[dest], tag);
}
/// Likewise, of a send with a request.
inline void count_request(Request* request, CommSlot* comm, int dest, int tag) {
  request->receiver = -1;
  if (FERMATA_UNLIKELY(dest < 0)) return;
  count_sent(comm, dest, tag);
  request->receiver = comm_of(comm)->members[dest];
}

using LowerSend = int (*)(const void*, int, RealDatatype, int, int, RealComm);
using LowerIsend = int (*)(const void*, int, RealDatatype, int, int, RealComm, RealRequest*);

/// A call of the lower half that may wait for a rank that has parked.
class Sending {
 public:
  [[gnu::always_inline]] explicit Sending(u32 receiver) {
    crossing().sending = receiver;
    compiler_barrier();
  }
  [[gnu::always_inline]] ~Sending() {
    compiler_barrier();
    crossing().sending = 0;
  }
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;
};

[[gnu::always_inline]] inline int send_begin(LowerIsend MpiCalls::*call, const void* buf,
                                             int count, DatatypeSlot* datatype, int dest, int tag,
                                             CommSlot* comm, RequestSlot** handle) {
  RealRequest real;
  const int error = (lower().*call)(buf, count, datatype->real(), dest, tag, comm->real(), &real);
  if (FERMATA_UNLIKELY(error != kSuccess)) return error;
  if (!real) {  // complete already
    count_sent(comm, dest, tag);
    *handle = state().p2p.completed;
    return kSuccess;
  }
  RequestSlot* const slot = request_slot_new();
  slot->real() = real;
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kSend, RequestState::kActive);
  request->peer = dest;
  request->comm = comm;
  count_request(request, comm, dest, tag);
  *handle = slot;
  return kSuccess;
}

int send_registered(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                    CommSlot* comm);

[[gnu::always_inline]] inline int send_blocking(const void* buf, int count, DatatypeSlot* datatype,
                                                int dest, int tag, CommSlot* comm) {
  LowerScope scope;
  if (core_is_shared()) return send_registered(buf, count, datatype, dest, tag, comm);
  const Comm* const c = comm_of(comm);
  const bool is_known = FERMATA_LIKELY(c && u32(dest) < u32(peers_of(c)));
  {
    const Sending sending(is_known ? u32(c->members[dest]) + 1 : 0);
    if (!checkpoint_wanted()) {
      const int error = lower().Send(buf, count, datatype->real(), dest, tag, comm->real());
      if (FERMATA_LIKELY(error == kSuccess)) count_sent(comm, dest, tag);
      return error;
    }
  }
  return send_registered(buf, count, datatype, dest, tag, comm);
}

/// Describes an active request; a derived datatype is kept alive by it.
[[gnu::always_inline]] inline void fill_recipe(Request* request, RequestKind kind, void* buf,
                                               int count, DatatypeSlot* datatype, int peer, int tag,
                                               CommSlot* comm) {
  request_start(request, kind, RequestState::kActive);
  request->buffer = buf;
  request->count = count;
  request->datatype = datatype;
  request->peer = peer;
  request->tag = tag;
  request->comm = comm;
  if (FERMATA_UNLIKELY(peer == kAnySource)) request->wants_status = true;
  if (FERMATA_UNLIKELY(type_ref(datatype))) request->owns = true;
}

/// Begins or completes a receive that the lower half must not match: of a message that is held or
/// kept, or because nobody sends. (MPICH 4.0's non-blocking receive from MPI_PROC_NULL leaves the
/// status unset.) Returns false if it is an ordinary one; *error is that of beginning it.
bool receive_out_of_turn(RequestSlot* slot, int* error);

/// True if the lower half alone can answer a receive or probe: the common case, one test each.
inline bool lower_alone(const Comm* comm, int source) {
  return FERMATA_LIKELY(comm && !comm->unexpected_first && source != kProcNull);
}

/// Posts the receive that the request describes.
[[gnu::always_inline]] inline int post_receive(RequestSlot* slot) {
  Request* const request = request_of(slot);
  request->order = ++state().p2p.post_order;
  int error;
  if (!lower_alone(comm_of(request->comm), request->peer) && receive_out_of_turn(slot, &error))
    return error;
  return lower().Irecv(request->buffer, request->count, request->datatype->real(), request->peer,
                       request->tag, request->comm->real(), &slot->real());
}

[[gnu::always_inline]] inline int receive_begin(void* buf, int count, DatatypeSlot* datatype,
                                                int source, int tag, CommSlot* comm,
                                                RequestSlot** handle) {
  RequestSlot* const slot = request_slot_new();
  fill_recipe(request_of(slot), RequestKind::kRecv, buf, count, datatype, source, tag, comm);
  const int error = post_receive(slot);
  if (FERMATA_UNLIKELY(error != kSuccess)) {
    request_release(slot);
    return error;
  }
  *handle = slot;
  return kSuccess;
}

/// The rest of a blocking receive whose request must be known to the draining: slow, rare.
int receive_registered(void* buf, int count, DatatypeSlot* datatype, int source, int tag,
                       CommSlot* comm, RealRequest posted_real, CanonStatus* status);

/// A blocking receive. `status` may be null; then the lower half is asked for one only where the
/// core state needs it, to learn who sent the message.
[[gnu::always_inline]] inline int receive_blocking(void* buf, int count, DatatypeSlot* datatype,
                                                   int source, int tag, CommSlot* comm,
                                                   CanonStatus* status) {
  Comm* const c = comm_of(comm);
  CanonStatus local;
  // Among threads it is posted under the core lock: between a look at the kept messages and the
  // posting another thread could keep the very message that this one waits for.
  if (!lower_alone(c, source) || core_is_shared())
    return receive_registered(buf, count, datatype, source, tag, comm, {},
                              status ? status : &local);
  if (!status && source == kAnySource) status = &local;
  RealRequest left;
  int error;
  {
    const BlockingCall open;
    error = lower().receive(buf, count, datatype->real(), source, tag, comm->real(), status, &left);
  }
  if (FERMATA_UNLIKELY(left))
    return receive_registered(buf, count, datatype, source, tag, comm, left,
                              status ? status : &local);
  if (FERMATA_LIKELY(error == kSuccess || error == kErrTruncate))
    count_received(c, status ? status->source : source);
  return error;
}

/// Looks for a message: kept ones first. *kept: the kept message that was found, or null.
inline int probe_once(int source, int tag, CommSlot* comm, int* flag, UnexpectedMessage** kept,
                      CanonStatus* status) {
  Comm* const c = comm_of(comm);
  if (source == kProcNull) {
    *kept = nullptr;
    *flag = 1;
    *status = proc_null_status();
    return kSuccess;
  }
  *kept = c && c->unexpected_first ? unexpected_match(c, source, tag) : nullptr;
  if (FERMATA_UNLIKELY(*kept != nullptr)) {
    *flag = 1;
    *status = unexpected_status(*kept);
    return kSuccess;
  }
  return lower().Iprobe(source, tag, comm->real(), flag, status);
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Send(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                CommSlot* comm) {
  return send_blocking(buf, count, datatype, dest, tag, comm);
}
inline int Issend(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                  CommSlot* comm, RequestSlot** request) {
  LowerScope scope;
  const int error =
      send_begin(&MpiCalls::Issend, buf, count, datatype, dest, tag, comm, request);
  if (!error && *request != state().p2p.completed) synchronous_begin(*request, comm, tag);
  return error;
}
inline int Ssend(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                 CommSlot* comm) {
  LowerScope scope;
  RequestSlot* request = nullptr;
  const int error = Issend(buf, count, datatype, dest, tag, comm, &request);
  return error ? error : wait_request(&request, nullptr);
}
inline int bsend_lower(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                       CommSlot* comm) {
  LowerScope scope;
  const int error = lower().Bsend(buf, count, datatype->real(), dest, tag, comm->real());
  if (!error) count_sent(comm, dest, tag);
  return error;
}
// A ready send promises that the receive is posted. A kept message or a restart may have consumed
// that receive, or not re-posted it yet, so the promise is not passed on: a standard send is right.
inline int Rsend(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                 CommSlot* comm) {
  return send_blocking(buf, count, datatype, dest, tag, comm);
}
inline int Isend(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                 CommSlot* comm, RequestSlot** request) {
  LowerScope scope;
  return send_begin(&MpiCalls::Isend, buf, count, datatype, dest, tag, comm, request);
}
inline int ibsend_lower(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                        CommSlot* comm, RequestSlot** request) {
  LowerScope scope;
  return send_begin(&MpiCalls::Ibsend, buf, count, datatype, dest, tag, comm, request);
}
inline int Irsend(const void* buf, int count, DatatypeSlot* datatype, int dest, int tag,
                  CommSlot* comm, RequestSlot** request) {
  LowerScope scope;
  return send_begin(&MpiCalls::Isend, buf, count, datatype, dest, tag, comm, request);
}

inline int Recv(void* buf, int count, DatatypeSlot* datatype, int source, int tag, CommSlot* comm,
                CanonStatus* status) {
  LowerScope scope;
  return receive_blocking(buf, count, datatype, source, tag, comm, status);
}
inline int Irecv(void* buf, int count, DatatypeSlot* datatype, int source, int tag, CommSlot* comm,
                 RequestSlot** request) {
  LowerScope scope;
  return receive_begin(buf, count, datatype, source, tag, comm, request);
}

inline int Iprobe(int source, int tag, CommSlot* comm, int* flag, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  UnexpectedMessage* kept;
  return probe_once(source, tag, comm, flag, &kept, status ? status : &local);
}
inline int Probe(int source, int tag, CommSlot* comm, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  UnexpectedMessage* kept;
  Backoff backoff;
  for (;;) {
    int flag = 0;
    const int error = probe_once(source, tag, comm, &flag, &kept, status ? status : &local);
    if (flag || error) return error;
    if (checkpoint_wanted()) safe_point({nullptr, 0, comm_of(comm), source});
    between_polls(backoff);
  }
}

}  // namespace fermata::mpi::core
