// SPDX-License-Identifier: Apache-2.0
// Unexpected messages: found during a checkpoint, delivered before anything the network still
// holds.
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

#include "base/backoff.h"
#include "mpi/gate/clock.h"
#include "mpi/gate/threads.h"

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

/// Between two polls of the lower half, where other threads may change the core state: they are
/// opened if somebody waits for them, and it gets them before this thread has them back.
inline void between_polls(Backoff& backoff) {
  const bool is_spent = backoff.is_spent();
  if (core_is_shared() && (is_spent || core_is_awaited() || crossing().pending != 0)) {
    const CoreUnlocked open;
    (void)sys::call(SYS_sched_yield);
  } else if (is_spent) {
    (void)sys::call(SYS_sched_yield);
  }
}
/// Likewise, where they may not: what is waited for needs no other thread of this rank.
inline void between_polls_alone(Backoff& backoff) {
  if (backoff.is_spent()) (void)sys::call(SYS_sched_yield);
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

inline void unexpected_append(UnexpectedMessage* kept) {
  Comm* const comm = kept->comm;
  kept->next = nullptr;
  kept->previous = comm->unexpected_last;
  (comm->unexpected_last ? comm->unexpected_last->next : comm->unexpected_first) = kept;
  comm->unexpected_last = kept;
}

inline void unexpected_unlink(UnexpectedMessage* kept) {
  Comm* const comm = kept->comm;
  (kept->previous ? kept->previous->next : comm->unexpected_first) = kept->next;
  (kept->next ? kept->next->previous : comm->unexpected_last) = kept->previous;
}

/// A message that a probe has found.
inline UnexpectedMessage* unexpected_new(Comm* comm, const CanonStatus& status) {
  UnexpectedMessage* const kept = arena_new<UnexpectedMessage>();
  kept->comm = comm;
  kept->source = status.source;
  kept->tag = status.tag;
  kept->bytes = status.bytes();
  state().unexpected_messages++;
  state().unexpected_bytes += kept->bytes;
  return kept;
}

inline void unexpected_free(UnexpectedMessage* kept) {
  state().unexpected_messages--;
  state().unexpected_bytes -= kept->bytes;
  arena_free(kept->data);
  arena_free(kept);
}

/// The first kept message that a receive with this source and tag may match, or null.
inline UnexpectedMessage* unexpected_match(const Comm* comm, i32 source, i32 tag) {
  for (UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
    if ((source == kAnySource || source == kept->source) &&
        (tag == kAnyTag || tag == kept->tag))
      return kept;
  return nullptr;
}

inline CanonStatus unexpected_status(const UnexpectedMessage* kept) {
  CanonStatus status{};
  status.source = kept->source;
  status.tag = kept->tag;
  status.set_bytes(kept->bytes);
  return status;
}

inline void unexpected_count(UnexpectedMessage* kept) {
  if (!kept->counted) count_received(kept->comm, kept->source);
  kept->counted = true;
}

/// Looks whether a message that is being received has come in. Preconditions: the gate is held.
inline bool unexpected_arrived(UnexpectedMessage* kept) {
  if (kept->state != UnexpectedState::kFilling) return kept->state == UnexpectedState::kWhole;
  int flag = 0;
  CanonStatus status{};
  (void)lower().Test(&kept->real, &flag, &status);
  if (!flag) return false;
  kept->state = UnexpectedState::kWhole;
  kept->real = 0;
  state().unexpected_filling--;
  unexpected_count(kept);
  return true;
}

/// Counts of bytes are int here.
inline bool is_too_large(u64 bytes) { return bytes > 0x7fff'ffff; }

/// Begins to receive a message that was found or is held, as bytes. Never blocks: one still on its
/// way fills its buffer under a request of its own. Returns the error class; then the message is as
/// it was.
inline int unexpected_fill(UnexpectedMessage* kept) {
  if (is_too_large(kept->bytes)) return kErrUnsupportedOperation;
  const bool held = kept->state == UnexpectedState::kHeld;
  u8* const data = arena_array<u8>(kept->bytes);
  const int count = int(kept->bytes);
  const u64 byte = state().lower_byte;
  u64 request = 0;
  const int error = held ? lower().Imrecv(data, count, byte, &kept->real, &request)
                         : lower().Irecv(data, count, byte, kept->source, kept->tag,
                                         kept->comm->slot->real, &request);
  if (error) {
    arena_free(data);
    return error;
  }
  if (held) (kept->matched ? state().unexpected_matched : state().unexpected_held)--;
  kept->matched = false;
  state().unexpected_filling++;
  kept->data = data;
  kept->real = request;
  kept->state = UnexpectedState::kFilling;
  (void)unexpected_arrived(kept);
  return kSuccess;
}

/// The checkpoint is to fail; follow_protocol() says so.
inline void fail_checkpoint(const char* reason) {
  state().park.failed = true;
  state().park.why_failed = reason;
}
/// unexpected_fill() for a checkpoint, which fails if it cannot be. Returns whether it could.
inline bool unexpected_keep(UnexpectedMessage* kept) {
  const int error = unexpected_fill(kept);
  if (error)
    fail_checkpoint(error == kErrUnsupportedOperation
                        ? "a message of 2 GiB or more is in flight"
                        : "the MPI library cannot receive a message that is in flight");
  return error == kSuccess;
}

/// Receives one waiting message of `comm`, any tag, as bytes. Returns false if none waits, or none
/// that can be kept. Never blocks.
inline bool unexpected_take_one(Comm* comm, i32 source) {
  int flag = 0;
  CanonStatus status{};
  if (lower().Iprobe(source, kAnyTag, comm->slot->real, &flag, &status) || !flag) return false;
  UnexpectedMessage* const kept = unexpected_new(comm, status);
  if (!unexpected_keep(kept)) {
    unexpected_free(kept);
    return false;
  }
  unexpected_append(kept);
  return true;
}

/// Receives the first held message of this source, as bytes. Returns false likewise.
inline bool unexpected_take_held(const Comm* comm, i32 source) {
  if (FERMATA_LIKELY(state().unexpected_held == 0)) return false;
  UnexpectedMessage* kept = comm->unexpected_first;
  while (kept && (kept->state != UnexpectedState::kHeld || source != kept->source))
    kept = kept->next;
  return kept && unexpected_keep(kept);
}

/// Receives all messages of `comm` that are held, as bytes; as many as can be kept. Never blocks.
inline void unexpected_take_all_held(const Comm* comm) {
  for (UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
    if (kept->state == UnexpectedState::kHeld && !unexpected_keep(kept)) return;
}

/// Holds one waiting message of `comm`, any tag. Returns false if none waits. Never blocks.
inline bool unexpected_hold_one(Comm* comm, i32 source) {
  int flag = 0;
  u64 message = 0;
  CanonStatus status{};
  if (lower().Improbe(source, kAnyTag, comm->slot->real, &flag, &message, &status) || !flag)
    return false;
  UnexpectedMessage* const kept = unexpected_new(comm, status);
  kept->state = UnexpectedState::kHeld;
  kept->real = message;
  unexpected_append(kept);
  unexpected_count(kept);
  state().unexpected_held++;
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
  Backoff backoff;
  for (int flag = 0; !flag; between_polls_alone(backoff)) {
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
inline void give_receipt(UnexpectedMessage* kept) {
  if (FERMATA_UNLIKELY(kept->owed_tag != 0)) send_receipt(kept->owed_to, kept->owed_tag);
  kept->owed_tag = 0;
}

/// Waits until a kept message is whole; its sender is bound to deliver it. Returns the error class.
inline int unexpected_complete(UnexpectedMessage* kept) {
  if (kept->state == UnexpectedState::kFound || kept->state == UnexpectedState::kHeld)
    if (const int error = unexpected_fill(kept)) return error;
  for (Backoff backoff; !unexpected_arrived(kept);) between_polls_alone(backoff);
  return kSuccess;
}

/// Hands a message that is not held to the application and forgets it. The caller has unlinked
/// nothing yet. Blocks until the message has come in.
inline int unexpected_deliver(UnexpectedMessage* kept, void* buffer, int count, u64 datatype,
                              CanonStatus* status) {
  (void)unexpected_complete(kept);
  unexpected_unlink(kept);
  give_receipt(kept);
  *status = unexpected_status(kept);
  const int error = unpack_bytes(kept->data, kept->bytes, buffer, count, datatype, status);
  unexpected_free(kept);
  return error;
}

/// Keeps what a matched probe has taken out of the lower half's queue; it counts from now on.
inline UnexpectedMessage* unexpected_new_matched(Comm* comm, u64 real, const CanonStatus& status) {
  UnexpectedMessage* const kept = unexpected_new(comm, status);
  kept->state = UnexpectedState::kHeld;
  kept->real = real;
  kept->matched = true;
  unexpected_count(kept);
  state().unexpected_matched++;
  return kept;
}

/// Matches a held message that is too large to be received as bytes (unexpected_fill).
inline void unexpected_match_held(UnexpectedMessage* kept) {
  unexpected_unlink(kept);
  kept->matched = true;
  state().unexpected_held--;
  state().unexpected_matched++;
}

/// A rank that is about to park receives, as bytes, what the program has matched: no message may be
/// the lower half's alone in an image, and its sender may stand in its call until then. False if
/// one is too large. Never blocks.
inline bool unexpected_fill_matched() {
  bool all = true;
  if (FERMATA_LIKELY(state().unexpected_matched == 0)) return true;
  for_each_live(kMessage, [&](Slot* slot) {
    UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>(slot->object);
    if (kept->state == UnexpectedState::kHeld && unexpected_fill(kept) != kSuccess) all = false;
  });
  return all;
}
/// Looks whether these have come in. True if one has.
inline bool unexpected_matched_arrived() {
  bool any = false;
  for_each_live(kMessage, [&](Slot* slot) {
    UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>(slot->object);
    if (kept->state == UnexpectedState::kFilling) any |= unexpected_arrived(kept);
  });
  return any;
}

/// Begins to receive a held message where the request says, and forgets it. It counts when the
/// request ends, like that of any receive. Never blocks. Returns the error class; unless it is
/// kErrTruncate the message is held as before.
inline int unexpected_receive(UnexpectedMessage* kept, Slot* slot) {
  Request* const request = request_of(slot);
  u64 real = 0;
  const int error = lower().Imrecv(request->buffer, request->count, request->datatype->real,
                                   &kept->real, &real);
  if (error && error != kErrTruncate) return error;
  if (kept->matched) {
    state().unexpected_matched--;
  } else {
    unexpected_unlink(kept);
    state().unexpected_held--;
  }
  give_receipt(kept);
  if (error == kSuccess) {
    state().received[kept->comm->members[kept->source]]--;
    if (is_persistent(request)) slot->spare = slot->real;
    slot->real = real;
    request->mode = SendMode::kMatched;
    request->state = RequestState::kActive;
  }
  unexpected_free(kept);
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
