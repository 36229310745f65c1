// SPDX-License-Identifier: Apache-2.0
// Early messages: found during a checkpoint, delivered before anything the network still holds.
//
// A message in flight at a checkpoint belongs to no process and to no image. So it is received
// whole, as bytes, and waits in its communicator's queue with its true source and tag. Later
// receives look there first, in arrival order, which keeps MPI's rule that messages of one sender
// are matched in the order they were sent. Delivery goes through the receiver's datatype by sending
// the bytes to ourselves on a private communicator of the lower half.
//
// A rank that has to count what comes, because it has told that it waits for a message of that
// sender (needs.h) or because all drain, first only holds it: a matched probe takes it out of the
// lower half's queue. A synchronous send does not see that. A held message is received where the
// program asks for it, or as bytes once the draining rank has seen all that it is to receive.
//
// Invariant: a message is counted in Core::received when it is held, else when its bytes have come
//            in. One that is held goes back to the latter when the program receives it.
#pragma once

#include "base/patience.h"
#include "mpi/clock.h"
#include "mpi/threads.h"

namespace fermata::mpi {

// What a call waits for that calls safe_point(): requests, or a message that is probed for.
struct Awaited {
  Slot* const* requests = nullptr;
  i32 count = 0;
  const Comm* probed = nullptr;
  i32 source = 0;
  const front::RequestList* list = nullptr;  // instead of `requests`: those at these places in it,
  const i32* at = nullptr;                   // or, if null, the first ones

  Slot* request(i32 i) const { return requests ? requests[i] : list->get(at ? at[i] : i); }
};
void safe_point(const Awaited& awaited = {});  // park.h

/// Between two polls of the lower half, where other threads may change the books: they are opened
/// if somebody waits for them, and it gets them before this thread has them back.
inline void between_polls(Patience& patience) {
  const bool is_spent = patience.is_spent();
  if (books_are_shared() && (is_spent || books_are_awaited() || crossing().pending != 0)) {
    const OpenBooks open;
    (void)sys::call(SYS_sched_yield);
  } else if (is_spent) {
    (void)sys::call(SYS_sched_yield);
  }
}
/// Likewise, where they may not: what is waited for needs no other thread of this rank.
inline void between_polls_alone(Patience& patience) {
  if (patience.is_spent()) (void)sys::call(SYS_sched_yield);
}

inline CanonStatus empty_status() {
  CanonStatus status{};
  status.source = kAnySource;
  status.tag = kAnyTag;
  return status;
}
inline CanonStatus proc_null_status() {
  CanonStatus status{};
  status.source = kProcNull;
  status.tag = kAnyTag;
  return status;
}

inline void count_received(const Comm* comm, i32 source) {
  if (source >= 0) state().received[comm->members[source]]++;
}

inline void early_append(Early* early) {
  Comm* const comm = early->comm;
  early->next = nullptr;
  early->previous = comm->early_last;
  (comm->early_last ? comm->early_last->next : comm->early_first) = early;
  comm->early_last = early;
}

inline void early_unlink(Early* early) {
  Comm* const comm = early->comm;
  (early->previous ? early->previous->next : comm->early_first) = early->next;
  (early->next ? early->next->previous : comm->early_last) = early->previous;
}

/// A message that a probe has found.
inline Early* early_new(Comm* comm, const CanonStatus& status) {
  Early* const early = arena_new<Early>();
  early->comm = comm;
  early->source = status.source;
  early->tag = status.tag;
  early->bytes = status.bytes();
  state().early_messages++;
  state().early_bytes += early->bytes;
  return early;
}

inline void early_free(Early* early) {
  state().early_messages--;
  state().early_bytes -= early->bytes;
  arena_free(early->data);
  arena_free(early);
}

/// The first kept message that a receive with this source and tag may match, or null.
inline Early* early_match(const Comm* comm, i32 source, i32 tag) {
  for (Early* early = comm->early_first; early; early = early->next)
    if ((source == kAnySource || source == early->source) &&
        (tag == kAnyTag || tag == early->tag))
      return early;
  return nullptr;
}

inline CanonStatus early_status(const Early* early) {
  CanonStatus status{};
  status.source = early->source;
  status.tag = early->tag;
  status.set_bytes(early->bytes);
  return status;
}

inline void early_count(Early* early) {
  if (!early->counted) count_received(early->comm, early->source);
  early->counted = true;
}

/// Looks whether a message that is being received has come in. Preconditions: the gate is held.
inline bool early_arrived(Early* early) {
  if (early->state != EarlyState::kFilling) return early->state == EarlyState::kWhole;
  int flag = 0;
  CanonStatus status{};
  (void)lower().Test(&early->real, &flag, &status);
  if (!flag) return false;
  early->state = EarlyState::kWhole;
  early->real = 0;
  state().early_filling--;
  early_count(early);
  return true;
}

/// Counts of bytes are int here.
inline bool is_too_large(u64 bytes) { return bytes > 0x7fff'ffff; }

/// Begins to receive a message that was found or is held, as bytes. Never blocks: one still on its
/// way fills its buffer under a request of its own. Returns the error class; then the message is as
/// it was.
inline int early_fill(Early* early) {
  if (is_too_large(early->bytes)) return kErrUnsupportedOperation;
  const bool held = early->state == EarlyState::kHeld;
  u8* const data = arena_array<u8>(early->bytes);
  const int count = int(early->bytes);
  const u64 byte = state().lower_byte;
  u64 request = 0;
  const int error = held ? lower().Imrecv(data, count, byte, &early->real, &request)
                         : lower().Irecv(data, count, byte, early->source, early->tag,
                                         early->comm->slot->real, &request);
  if (error) {
    arena_free(data);
    return error;
  }
  if (held) (early->matched ? state().early_matched : state().early_held)--;
  early->matched = false;
  state().early_filling++;
  early->data = data;
  early->real = request;
  early->state = EarlyState::kFilling;
  (void)early_arrived(early);
  return kSuccess;
}

/// The checkpoint is to fail; follow_protocol() says so.
inline void fail_checkpoint(const char* reason) {
  state().park.failed = true;
  state().park.why_failed = reason;
}
/// early_fill() for a checkpoint, which fails if it cannot be. Returns whether it could.
inline bool early_keep(Early* early) {
  const int error = early_fill(early);
  if (error)
    fail_checkpoint(error == kErrUnsupportedOperation
                        ? "a message of 2 GiB or more is in flight"
                        : "the MPI library cannot receive a message that is in flight");
  return error == kSuccess;
}

/// Receives one waiting message of `comm`, any tag, as bytes. Returns false if none waits, or none
/// that can be kept. Never blocks.
inline bool early_take_one(Comm* comm, i32 source) {
  int flag = 0;
  CanonStatus status{};
  if (lower().Iprobe(source, kAnyTag, comm->slot->real, &flag, &status) || !flag) return false;
  Early* const early = early_new(comm, status);
  if (!early_keep(early)) {
    early_free(early);
    return false;
  }
  early_append(early);
  return true;
}

/// Receives the first held message of this source, as bytes. Returns false likewise.
inline bool early_take_held(const Comm* comm, i32 source) {
  if (FERMATA_LIKELY(state().early_held == 0)) return false;
  Early* early = comm->early_first;
  while (early && (early->state != EarlyState::kHeld || source != early->source))
    early = early->next;
  return early && early_keep(early);
}

/// Receives all messages of `comm` that are held, as bytes; as many as can be kept. Never blocks.
inline void early_take_all_held(const Comm* comm) {
  for (Early* early = comm->early_first; early; early = early->next)
    if (early->state == EarlyState::kHeld && !early_keep(early)) return;
}

/// Holds one waiting message of `comm`, any tag. Returns false if none waits. Never blocks.
inline bool early_hold_one(Comm* comm, i32 source) {
  int flag = 0;
  u64 message = 0;
  CanonStatus status{};
  if (lower().Improbe(source, kAnyTag, comm->slot->real, &flag, &message, &status) || !flag)
    return false;
  Early* const early = early_new(comm, status);
  early->state = EarlyState::kHeld;
  early->real = message;
  early_append(early);
  early_count(early);
  state().early_held++;
  return true;
}

/// Copies `bytes` packed bytes into `count` elements of a datatype, as if they had been received.
/// Returns the canonical error class (kErrTruncate if they do not fit) and fills status->internal.
inline int unpack_bytes(const void* data, u64 bytes, void* buffer, int count, u64 datatype,
                        CanonStatus* status) {
  u64 receive = 0;
  int error = lower().Irecv(buffer, count, datatype, 0, 0, state().lower_self, &receive);
  if (error) return error;
  error = lower().Send(data, int(bytes), state().lower_byte, 0, 0, state().lower_self);
  CanonStatus got{};
  Patience patience;
  for (int flag = 0; !flag; between_polls_alone(patience)) {
    const int test_error = lower().Test(&receive, &flag, &got);
    if (test_error) {
      error = test_error;
      break;
    }
  }
  status->set_bytes(got.bytes());
  // Open MPI 4.1 says nothing when a message to the process itself is cut short.
  return error == kSuccess && got.bytes() < bytes ? int(kErrTruncate) : error;
}

/// A receipt is an empty message. Its receive has been posted, and so small a send never waits.
inline void send_receipt(i32 to, i32 tag) {
  if (lower().Send(nullptr, 0, state().lower_byte, to, tag, state().own_comm->real) == kSuccess)
    state().sent[to]++;
}
/// The program has matched a kept message.
inline void give_receipt(Early* early) {
  if (FERMATA_UNLIKELY(early->owed_tag != 0)) send_receipt(early->owed_to, early->owed_tag);
  early->owed_tag = 0;
}

/// Waits until a kept message is whole; its sender is bound to deliver it. Returns the error class.
inline int early_complete(Early* early) {
  if (early->state == EarlyState::kFound || early->state == EarlyState::kHeld)
    if (const int error = early_fill(early)) return error;
  for (Patience patience; !early_arrived(early);) between_polls_alone(patience);
  return kSuccess;
}

/// Hands a message that is not held to the application and forgets it. The caller has unlinked
/// nothing yet. Blocks until the message has come in.
inline int early_deliver(Early* early, void* buffer, int count, u64 datatype, CanonStatus* status) {
  (void)early_complete(early);
  early_unlink(early);
  give_receipt(early);
  *status = early_status(early);
  const int error = unpack_bytes(early->data, early->bytes, buffer, count, datatype, status);
  early_free(early);
  return error;
}

/// Keeps what a matched probe has taken out of the lower half's queue; it counts from now on.
inline Early* early_new_matched(Comm* comm, u64 real, const CanonStatus& status) {
  Early* const early = early_new(comm, status);
  early->state = EarlyState::kHeld;
  early->real = real;
  early->matched = true;
  early_count(early);
  state().early_matched++;
  return early;
}

/// Matches a held message that is too large to be received as bytes (early_fill).
inline void early_match_held(Early* early) {
  early_unlink(early);
  early->matched = true;
  state().early_held--;
  state().early_matched++;
}

/// A rank that is about to park receives, as bytes, what the program has matched: no message may be
/// the lower half's alone in an image, and its sender may stand in its call until then. False if
/// one is too large. Never blocks.
inline bool early_fill_matched() {
  bool all = true;
  if (FERMATA_LIKELY(state().early_matched == 0)) return true;
  for_each_live(kMessage, [&](Slot* slot) {
    Early* const early = static_cast<Early*>(slot->object);
    if (early->state == EarlyState::kHeld && early_fill(early) != kSuccess) all = false;
  });
  return all;
}
/// Looks whether these have come in. True if one has.
inline bool early_matched_arrived() {
  bool any = false;
  for_each_live(kMessage, [&](Slot* slot) {
    Early* const early = static_cast<Early*>(slot->object);
    if (early->state == EarlyState::kFilling) any |= early_arrived(early);
  });
  return any;
}

/// Begins to receive a held message where the request says, and forgets it. It counts when the
/// request ends, like that of any receive. Never blocks. Returns the error class; unless it is
/// kErrTruncate the message is held as before.
inline int early_receive(Early* early, Slot* slot) {
  Request* const request = request_of(slot);
  u64 real = 0;
  const int error = lower().Imrecv(request->buffer, request->count, request->datatype->real,
                                   &early->real, &real);
  if (error && error != kErrTruncate) return error;
  if (early->matched) {
    state().early_matched--;
  } else {
    early_unlink(early);
    state().early_held--;
  }
  give_receipt(early);
  if (error == kSuccess) {
    state().received[early->comm->members[early->source]]--;
    if (is_persistent(request)) slot->spare = slot->real;
    slot->real = real;
    request->mode = SendMode::kMatched;
    request->state = RequestState::kActive;
  }
  early_free(early);
  return error;
}

/// A persistent receive has its own real request again. The message of the other one has come in.
inline void take_own_request_back(Slot* slot) {
  Request* const request = request_of(slot);
  if (request->mode != SendMode::kMatched) return;
  slot->real = slot->spare;
  request->mode = SendMode::kStandard;
}

}  // namespace fermata::mpi
