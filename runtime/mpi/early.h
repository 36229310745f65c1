// SPDX-License-Identifier: Apache-2.0
// Early messages: kept while draining, delivered before anything the network still holds.
//
// A message in flight at a checkpoint belongs to no process and to no image. So it is received
// whole, as bytes, and waits in its communicator's queue with its true source and tag. Later
// receives look there first, in arrival order, which keeps MPI's rule that messages of one sender
// are matched in the order they were sent. Delivery goes through the receiver's datatype by sending
// the bytes to ourselves on a private communicator of the lower half.
//
// Invariant: a message is counted in Core::received when its bytes have come in, never again when
//            the application takes it.
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
};
void safe_point(const Awaited& awaited = {});  // park.h

/// Between two polls of the lower half, where other threads may change the books.
inline void between_polls(Patience& patience) {
  if (FERMATA_UNLIKELY(front::tls_gate.lock_depth != 0)) {
    const OpenBooks open;
    (void)sys::call(SYS_sched_yield);
  } else if (patience.is_spent()) {
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

/// Looks whether a message that is being kept has come in. Preconditions: the gate is held.
inline bool early_arrived(Early* early) {
  if (!early->filling) return true;
  int flag = 0;
  CanonStatus status{};
  (void)lower().Test(&early->real, &flag, &status);
  if (!flag) return false;
  early->filling = false;
  early->real = 0;
  state().early_filling--;
  count_received(early->comm, early->source);
  return true;
}

/// Receives one waiting message of `comm`, any tag, as bytes. Returns false if none waits. Never
/// blocks: a message still on its way fills its buffer under a request of its own.
inline bool early_take_one(Comm* comm, i32 source) {
  int flag = 0;
  CanonStatus status{};
  if (lower().Iprobe(source, kAnyTag, comm->slot->real, &flag, &status) || !flag) return false;
  const u64 bytes = status.bytes();
  if (bytes > 0x7fff'ffff || status.source < 0) {
    state().park.failed = true;  // MPI_BYTE counts are int here; the report is made by park()
    return false;
  }
  Early* const early = arena_new<Early>();
  early->comm = comm;
  early->source = status.source;
  early->tag = status.tag;
  early->bytes = bytes;
  early->data = arena_array<u8>(bytes);
  early->filling = true;
  if (lower().Irecv(early->data, int(bytes), state().lower_byte, early->source, early->tag,
                    comm->slot->real, &early->real)) {
    arena_free(early->data);
    arena_free(early);
    return false;
  }
  state().early_filling++;
  state().early_messages++;
  state().early_bytes += bytes;
  early_append(early);
  (void)early_arrived(early);
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
  return error;
}

/// A receipt is an empty message. Its receive has been posted, and so small a send never waits.
inline void send_receipt(i32 to, i32 tag) {
  if (lower().Send(nullptr, 0, state().lower_byte, to, tag, state().receipts->real) == kSuccess)
    state().sent[to]++;
}
/// The program has matched a kept message.
inline void give_receipt(Early* early) {
  if (FERMATA_UNLIKELY(early->owed_tag != 0)) send_receipt(early->owed_to, early->owed_tag);
  early->owed_tag = 0;
}

/// Hands a kept message to the application and forgets it. The caller has unlinked nothing yet.
/// Blocks until the message has come in (its sender is bound to deliver it).
inline int early_deliver(Early* early, void* buffer, int count, u64 datatype, CanonStatus* status) {
  for (Patience patience; !early_arrived(early);) between_polls_alone(patience);
  early_unlink(early);
  give_receipt(early);
  *status = early_status(early);
  const int error = unpack_bytes(early->data, early->bytes, buffer, count, datatype, status);
  early_free(early);
  return error;
}

}  // namespace fermata::mpi
