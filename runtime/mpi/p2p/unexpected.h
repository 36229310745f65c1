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
// sender (wait_edges.h) or because all drain, first only holds it: a matched probe takes it out of
// the lower half's queue. A synchronous send does not see that. A held message is received where
// the program asks for it, or as bytes once the draining rank has seen all that it is to receive.
//
// Invariant: a message is counted in P2pState::received when it is held, else when its bytes have
//            come in. One that is held goes back to the latter when the program receives it.
//            Checked where a rank is saved (check_drained).
#pragma once

#include "base/backoff.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/scopes.h"
#include "mpi/gate/threads.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "sys/sys.h"

namespace fermata::mpi {

enum class UnexpectedState : u8 {
  kFound,    // by a probe; the lower half has it yet
  kHeld,     // out of the lower half's queue, but not received: its sender does not see that
  kFilling,  // being received
  kWhole,
};

// A message that a probe has found, and that is kept for its receive.
struct UnexpectedMessage {
  UnexpectedMessage* next;
  UnexpectedMessage* previous;
  Comm* comm;
  UnexpectedState state;
  bool counted;  // in P2pState::received
  bool matched;  // held for a message handle of the program; in no queue
  union {
    RealMessage message;  // kHeld
    RealRequest request;  // kFilling: it fills `data`
  } real;
  u8* data;
  u64 bytes;
  i32 source;  // rank in the communicator
  i32 tag;
  i32 owed_to;  // world rank whose synchronous send waits until it is matched, if owed_tag
  i32 owed_tag;
  int error;  // class of the one with which it came in: its receive's
};

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
  if (source >= 0) state().p2p.received[comm->members[source]]++;
}

void unexpected_append(UnexpectedMessage* kept);
void unexpected_unlink(UnexpectedMessage* kept);
void unexpected_free(UnexpectedMessage* kept);

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

/// Looks whether a message that is being received has come in. One that the lower half cannot
/// receive has an error from then on, and no checkpoint under way is made of it. Preconditions: the
/// gate is held.
bool unexpected_arrived(UnexpectedMessage* kept);

/// Counts of bytes are int here.
inline bool is_too_large(u64 bytes) { return bytes > 0x7fff'ffff; }

/// The checkpoint is to fail; follow_protocol() says so.
void fail_checkpoint(const char* reason);

/// Receives one waiting message of `comm`, any tag, as bytes. Returns false if none waits, or none
/// that can be kept. Never blocks.
bool unexpected_take_one(Comm* comm, i32 source);

/// Receives the first held message of this source, as bytes. Returns false likewise.
bool unexpected_take_held(const Comm* comm, i32 source);

/// Receives all messages of `comm` that are held, as bytes; as many as can be kept. Never blocks.
void unexpected_take_all_held(const Comm* comm);

/// Holds one waiting message of `comm`, any tag. Returns false if none waits. Never blocks.
bool unexpected_hold_one(Comm* comm, i32 source);

/// Copies `bytes` packed bytes into `count` elements of a datatype, as if they had been received.
/// Returns the canonical error class (kErrTruncate if they do not fit) and fills status->internal.
int unpack_bytes(const void* data, u64 bytes, void* buffer, int count, RealDatatype datatype,
                 CanonStatus* status);

/// A receipt is an empty message. Its receive has been posted, and so small a send never waits.
void send_receipt(i32 to, i32 tag);

/// The program has matched a kept message.
void give_receipt(UnexpectedMessage* kept);

/// Receives a kept message, as bytes, and waits until it is whole; its sender is bound to deliver
/// it. Returns the error class of beginning to; then it is as it was.
int unexpected_complete(UnexpectedMessage* kept);

/// Likewise, of one that is being received already.
void unexpected_await(UnexpectedMessage* kept);

/// Hands a message that is not held to the application and forgets it. The caller has unlinked
/// nothing yet. Blocks until the message has come in.
int unexpected_deliver(UnexpectedMessage* kept, void* buffer, int count, RealDatatype datatype,
                       CanonStatus* status);

/// Keeps what a matched probe has taken out of the lower half's queue; it counts from now on.
UnexpectedMessage* unexpected_new_matched(Comm* comm, RealMessage real, const CanonStatus& status);

/// Matches a held message that is too large to be received as bytes (unexpected_fill).
void unexpected_match_held(UnexpectedMessage* kept);

/// A rank that is about to park receives, as bytes, what the program has matched: no message may be
/// the lower half's alone in an image, and its sender may stand in its call until then. False if
/// one cannot be received: then the checkpoint fails by that reason. Never blocks.
bool unexpected_fill_matched();

/// Looks whether these have come in. True if one has.
bool unexpected_matched_arrived();

/// Begins to receive a held message where the request says, and forgets it. It counts when the
/// request ends, like that of any receive. Never blocks. Returns the error class; unless it is
/// kErrTruncate the message is held as before.
int unexpected_receive(UnexpectedMessage* kept, RequestSlot* slot);

/// A persistent receive has its own real request again. The message of the other one has come in.
inline void take_own_request_back(RequestSlot* slot) {
  Request* const request = request_of(slot);
  if (request->receive_mode != ReceiveMode::kHeld) return;
  slot->real() = slot->own;
  request->receive_mode = ReceiveMode::kPosted;
}

}  // namespace fermata::mpi
