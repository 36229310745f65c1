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
//            active receive and a persistent request carry a complete one.
#pragma once

#include "mpi/p2p/request_control.h"

namespace fermata::mpi {

// In receipts.h.
void note_behind(u64 comm_id, i32 receiver, int tag);
void synchronous_begin(Slot* request, const Slot* comm, int tag);

inline void count_sent(Slot* comm, int dest, int tag) {
  if (FERMATA_UNLIKELY(dest < 0)) return;
  const Comm* const c = comm_of(comm);
  state().sent[c->members[dest]]++;
  if (FERMATA_UNLIKELY(state().synchronous != nullptr)) note_behind(c->id, c->members[dest], tag);
}
/// Likewise, of a send with a request.
inline void count_request(Request* request, Slot* comm, int dest, int tag) {
  request->receiver = -1;
  if (FERMATA_UNLIKELY(dest < 0)) return;
  count_sent(comm, dest, tag);
  request->receiver = comm_of(comm)->members[dest];
}

using LowerSend = int (*)(const void*, int, u64, int, int, u64);
using LowerIsend = int (*)(const void*, int, u64, int, int, u64, u64*);

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

[[gnu::always_inline]] inline int send_begin(LowerIsend MpiCalls::*call, const void* buf, int count,
                                             Slot* datatype, int dest, int tag, Slot* comm,
                                             Slot** handle) {
  u64 real;
  const int error = (lower().*call)(buf, count, datatype->real, dest, tag, comm->real, &real);
  if (FERMATA_UNLIKELY(error != kSuccess)) return error;
  if (real == 0) {  // complete already
    count_sent(comm, dest, tag);
    *handle = state().completed;
    return kSuccess;
  }
  Slot* const slot = request_slot_new();
  slot->real = real;
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kSend, RequestState::kActive);
  request->peer = dest;
  request->comm = comm;
  count_request(request, comm, dest, tag);
  *handle = slot;
  return kSuccess;
}

[[gnu::noinline]] inline int send_registered(const void* buf, int count, Slot* datatype, int dest,
                                             int tag, Slot* comm) {
  Slot* request = nullptr;
  const int error = send_begin(&MpiCalls::Isend, buf, count, datatype, dest, tag, comm, &request);
  return error ? error : wait_request(&request, nullptr);
}

[[gnu::always_inline]] inline int send_blocking(const void* buf, int count, Slot* datatype,
                                                int dest, int tag, Slot* comm) {
  LowerScope scope;
  if (core_is_shared()) return send_registered(buf, count, datatype, dest, tag, comm);
  const Comm* const c = comm_of(comm);
  const bool is_known = FERMATA_LIKELY(c && u32(dest) < u32(peers_of(c)));
  {
    const Sending sending(is_known ? u32(c->members[dest]) + 1 : 0);
    if (!checkpoint_wanted()) {
      const int error = lower().Send(buf, count, datatype->real, dest, tag, comm->real);
      if (FERMATA_LIKELY(error == kSuccess)) count_sent(comm, dest, tag);
      return error;
    }
  }
  return send_registered(buf, count, datatype, dest, tag, comm);
}

/// Describes an active request; a derived datatype is kept alive by it.
[[gnu::always_inline]] inline void fill_recipe(Request* request, RequestKind kind, void* buf,
                                               int count, Slot* datatype, int peer, int tag,
                                               Slot* comm) {
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
[[gnu::noinline]] inline bool receive_out_of_turn(Slot* slot, int* error) {
  Request* const request = request_of(slot);
  *error = request->error = kSuccess;
  if (request->peer == kProcNull) {
    request->status = proc_null_status();
    request->state = RequestState::kDone;
    return true;
  }
  Comm* const comm = comm_of(request->comm);
  UnexpectedMessage* const kept =
      comm ? unexpected_match(comm, request->peer, request->tag) : nullptr;
  if (!kept) return false;
  if (kept->state == UnexpectedState::kHeld) {
    *error = unexpected_receive(kept, slot);
    return true;
  }
  request->error = unexpected_deliver(kept, request->buffer, request->count,
                                      request->datatype->real, &request->status);
  request->state = RequestState::kDone;
  return true;
}

/// True if the lower half alone can answer a receive or probe: the common case, one test each.
inline bool lower_alone(const Comm* comm, int source) {
  return FERMATA_LIKELY(comm && !comm->unexpected_first && source != kProcNull);
}

/// Posts the receive that the request describes.
[[gnu::always_inline]] inline int post_receive(Slot* slot) {
  Request* const request = request_of(slot);
  request->order = ++state().post_order;
  int error;
  if (!lower_alone(comm_of(request->comm), request->peer) && receive_out_of_turn(slot, &error))
    return error;
  return lower().Irecv(request->buffer, request->count, request->datatype->real, request->peer,
                       request->tag, request->comm->real, &slot->real);
}

[[gnu::always_inline]] inline int receive_begin(void* buf, int count, Slot* datatype, int source,
                                                int tag, Slot* comm, Slot** handle) {
  Slot* const slot = request_slot_new();
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
[[gnu::noinline]] inline int receive_registered(void* buf, int count, Slot* datatype, int source,
                                                int tag, Slot* comm, u64 posted_real,
                                                CanonStatus* status) {
  Slot* slot = request_slot_new();
  fill_recipe(request_of(slot), RequestKind::kRecv, buf, count, datatype, source, tag, comm);
  int error = kSuccess;
  if (posted_real) {
    slot->real = posted_real;
    request_of(slot)->order = ++state().post_order;
  } else {
    error = post_receive(slot);
  }
  if (error) {
    request_release(slot);
    return error;
  }
  if (checkpoint_wanted()) safe_point();
  return wait_request(&slot, status);
}

/// A blocking receive. `status` may be null; then the lower half is asked for one only where the
/// core state needs it, to learn who sent the message.
[[gnu::always_inline]] inline int receive_blocking(void* buf, int count, Slot* datatype, int source,
                                                   int tag, Slot* comm, CanonStatus* status) {
  Comm* const c = comm_of(comm);
  CanonStatus local;
  // Among threads it is posted under the core lock: between a look at the kept messages and the
  // posting another thread could keep the very message that this one waits for.
  if (!lower_alone(c, source) || core_is_shared())
    return receive_registered(buf, count, datatype, source, tag, comm, 0,
                              status ? status : &local);
  if (!status && source == kAnySource) status = &local;
  u64 left;
  int error;
  {
    const BlockingCall open;
    error = lower().receive(buf, count, datatype->real, source, tag, comm->real, status, &left);
  }
  if (FERMATA_UNLIKELY(left != 0))
    return receive_registered(buf, count, datatype, source, tag, comm, left,
                              status ? status : &local);
  if (FERMATA_LIKELY(error == kSuccess || error == kErrTruncate))
    count_received(c, status ? status->source : source);
  return error;
}

/// Looks for a message: kept ones first. *kept: the kept message that was found, or null.
inline int probe_once(int source, int tag, Slot* comm, int* flag, UnexpectedMessage** kept,
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
  return lower().Iprobe(source, tag, comm->real, flag, status);
}

/// Matched probe: takes the message out of everybody's sight. It is received where the program asks
/// for it; should the rank park before that, it receives it as bytes (unexpected_fill_matched).
inline int probe_matched(int source, int tag, Slot* comm, int* flag, Slot** message,
                         CanonStatus* status) {
  Comm* const c = comm_of(comm);
  if (source == kProcNull) {
    *flag = 1;
    *message = front::predefined(kMessage, kMessageNoProc);
    *status = proc_null_status();
    return kSuccess;
  }
  UnexpectedMessage* kept = c && c->unexpected_first ? unexpected_match(c, source, tag) : nullptr;
  if (FERMATA_LIKELY(kept == nullptr)) {
    u64 real = 0;
    const int error = lower().Improbe(source, tag, comm->real, flag, &real, status);
    if (error || !*flag) return error;
    *message = slot_new(kMessage, unexpected_new_matched(c, real, *status));
    return kSuccess;
  }
  *flag = 1;
  *status = unexpected_status(kept);
  if (kept->state == UnexpectedState::kHeld && is_too_large(kept->bytes)) {
    unexpected_match_held(kept);
  } else {
    if (const int error = unexpected_complete(kept)) return error;
    unexpected_unlink(kept);
    give_receipt(kept);
  }
  *message = slot_new(kMessage, kept);
  return kSuccess;
}

/// Begins to receive a matched message that is held; its handle becomes null.
inline int receive_matched_held(void* buf, int count, Slot* datatype, Slot** message,
                                Slot** handle) {
  UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>((*message)->object);
  Slot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  fill_recipe(request, RequestKind::kRecv, buf, count, datatype, kept->source, kept->tag,
              kept->comm->slot);
  request->order = ++state().post_order;
  const int error = unexpected_receive(kept, slot);
  if (error) note_culprit(request);
  if (error) request_release(slot);
  else *handle = slot;
  if (error && error != kErrTruncate) return error;
  slot_free(*message);
  *message = null_of(kMessage);
  return error;
}
/// Receives one in one call of the lower half. Its sender has begun to send it, so this ends also
/// where a checkpoint is pending.
inline int receive_matched_now(void* buf, int count, Slot* datatype, Slot** message,
                               CanonStatus* status) {
  UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>((*message)->object);
  const int error = lower().Mrecv(buf, count, datatype->real, &kept->real, status);
  if (error) front::tls_culprit = kept->comm->slot;
  if (error && error != kErrTruncate) return error;
  state().unexpected_matched--;
  give_receipt(kept);
  unexpected_free(kept);
  slot_free(*message);
  *message = null_of(kMessage);
  return error;
}
/// What a message handle stands for; null for MPI_MESSAGE_NULL and MPI_MESSAGE_NO_PROC.
inline const UnexpectedMessage* unexpected_of(const Slot* message) {
  if (is_null(message, kMessageNull) || message->index == kMessageNoProc) return nullptr;
  return static_cast<const UnexpectedMessage*>(message->object);
}
inline Slot* comm_of_message(const Slot* message) {
  const UnexpectedMessage* const kept = unexpected_of(message);
  return kept ? kept->comm->slot : nullptr;
}
inline bool is_matched_held(const Slot* message) {
  const UnexpectedMessage* const kept = unexpected_of(message);
  return kept && kept->state == UnexpectedState::kHeld;
}

/// Delivers a matched message; it leaves the core state and its handle becomes null.
inline int receive_matched(void* buf, int count, Slot* datatype, Slot** message,
                           CanonStatus* status) {
  if (is_null(*message, kMessageNull)) return kErrRequest;
  if ((*message)->index == kMessageNoProc) {
    *message = null_of(kMessage);
    *status = proc_null_status();
    return kSuccess;
  }
  UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>((*message)->object);
  (void)unexpected_complete(kept);  // an attempt may have been given up before it was whole
  *status = unexpected_status(kept);
  const int error =
      unpack_bytes(kept->data, kept->bytes, buf, count, datatype->real, status);
  if (error) front::tls_culprit = kept->comm->slot;
  unexpected_free(kept);
  slot_free(*message);
  *message = null_of(kMessage);
  return error;
}

namespace core {

inline int Send(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm) {
  return send_blocking(buf, count, datatype, dest, tag, comm);
}
inline int Issend(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                  Slot** request) {
  LowerScope scope;
  const int error =
      send_begin(&MpiCalls::Issend, buf, count, datatype, dest, tag, comm, request);
  if (!error && *request != state().completed) synchronous_begin(*request, comm, tag);
  return error;
}
inline int Ssend(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm) {
  LowerScope scope;
  Slot* request = nullptr;
  const int error = Issend(buf, count, datatype, dest, tag, comm, &request);
  return error ? error : wait_request(&request, nullptr);
}
inline int bsend_lower(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm) {
  LowerScope scope;
  const int error = lower().Bsend(buf, count, datatype->real, dest, tag, comm->real);
  if (!error) count_sent(comm, dest, tag);
  return error;
}
// A ready send promises that the receive is posted. A kept message or a restart may have consumed
// that receive, or not re-posted it yet, so the promise is not passed on: a standard send is right.
inline int Rsend(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm) {
  return send_blocking(buf, count, datatype, dest, tag, comm);
}
inline int Isend(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                 Slot** request) {
  LowerScope scope;
  return send_begin(&MpiCalls::Isend, buf, count, datatype, dest, tag, comm, request);
}
inline int ibsend_lower(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                        Slot** request) {
  LowerScope scope;
  return send_begin(&MpiCalls::Ibsend, buf, count, datatype, dest, tag, comm, request);
}
inline int Irsend(const void* buf, int count, Slot* datatype, int dest, int tag, Slot* comm,
                  Slot** request) {
  LowerScope scope;
  return send_begin(&MpiCalls::Isend, buf, count, datatype, dest, tag, comm, request);
}

inline int Recv(void* buf, int count, Slot* datatype, int source, int tag, Slot* comm,
                CanonStatus* status) {
  LowerScope scope;
  return receive_blocking(buf, count, datatype, source, tag, comm, status);
}
inline int Irecv(void* buf, int count, Slot* datatype, int source, int tag, Slot* comm,
                 Slot** request) {
  LowerScope scope;
  return receive_begin(buf, count, datatype, source, tag, comm, request);
}

inline int Iprobe(int source, int tag, Slot* comm, int* flag, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  UnexpectedMessage* kept;
  return probe_once(source, tag, comm, flag, &kept, status ? status : &local);
}
inline int Probe(int source, int tag, Slot* comm, CanonStatus* status) {
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

inline int Improbe(int source, int tag, Slot* comm, int* flag, Slot** message,
                   CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  *flag = 0;
  *message = null_of(kMessage);
  return probe_matched(source, tag, comm, flag, message, status ? status : &local);
}
inline int Mprobe(int source, int tag, Slot* comm, Slot** message, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  Backoff backoff;
  for (;;) {
    int flag = 0;
    const int error =
        probe_matched(source, tag, comm, &flag, message, status ? status : &local);
    if (flag || error) return error;
    if (checkpoint_wanted()) safe_point({nullptr, 0, comm_of(comm), source});
    between_polls(backoff);
  }
}
inline int Mrecv(void* buf, int count, Slot* datatype, Slot** message, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  if (is_matched_held(*message) && !core_is_shared())
    return receive_matched_now(buf, count, datatype, message, status);
  if (is_matched_held(*message)) {
    Slot* request = nullptr;
    const int error = receive_matched_held(buf, count, datatype, message, &request);
    return error ? error : wait_request(&request, status);
  }
  return receive_matched(buf, count, datatype, message, status ? status : &local);
}
inline int Imrecv(void* buf, int count, Slot* datatype, Slot** message, Slot** handle) {
  LowerScope scope;
  if (is_matched_held(*message))
    return receive_matched_held(buf, count, datatype, message, handle);
  Slot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  fill_recipe(request, RequestKind::kRecv, buf, count, datatype, kProcNull, kAnyTag, nullptr);
  request->object = nullptr;
  request->state = RequestState::kDone;
  request->comm = comm_of_message(*message);
  request->error = receive_matched(buf, count, datatype, message, &request->status);
  front::tls_culprit = nullptr;  // the error is that of the request
  *handle = slot;
  return kSuccess;
}

}  // namespace core
}  // namespace fermata::mpi
