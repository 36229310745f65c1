// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/unexpected.h"

#include "mpi/handles/arena.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/table.h"
#include "sys/check.h"

namespace fermata::mpi {
namespace {

constexpr char kCannotReceive[] = "the MPI library cannot receive a message that is in flight";
constexpr char kCannotLook[] = "the MPI library cannot look for messages that are in flight";

/// A message that a probe has found.
UnexpectedMessage* unexpected_new(Comm* comm, const CanonStatus& status) {
  UnexpectedMessage* const kept = arena_new<UnexpectedMessage>();
  kept->comm = comm;
  kept->source = status.source;
  kept->tag = status.tag;
  kept->bytes = status.bytes();
  state().p2p.unexpected_messages++;
  state().p2p.unexpected_bytes += kept->bytes;
  return kept;
}

void unexpected_count(UnexpectedMessage* kept) {
  if (!kept->counted) count_received(kept->comm, kept->source);
  kept->counted = true;
}

/// Begins to receive a message that was found or is held, as bytes. Never blocks: one still on its
/// way fills its buffer under a request of its own. Returns the error class; then the message is as
/// it was.
int unexpected_fill(UnexpectedMessage* kept) {
  if (is_too_large(kept->bytes)) return kErrUnsupportedOperation;
  const bool held = kept->state == UnexpectedState::kHeld;
  u8* const data = arena_array<u8>(kept->bytes);
  const int count = int(kept->bytes);
  const RealDatatype byte = state().lower.byte;
  RealRequest request{};
  const int error = held ? lower().Imrecv(data, count, byte, &kept->real.message, &request)
                         : lower().Irecv(data, count, byte, kept->source, kept->tag,
                                         kept->comm->slot->real(), &request);
  if (error) {
    arena_free(data);
    return error;
  }
  if (held) (kept->matched ? state().p2p.unexpected_matched : state().p2p.unexpected_held)--;
  kept->matched = false;
  state().p2p.unexpected_filling++;
  kept->data = data;
  kept->real.request = request;
  kept->state = UnexpectedState::kFilling;
  (void)unexpected_arrived(kept);  // its state and its error are in it
  return kSuccess;
}

/// Why unexpected_fill() has failed, for whoever asked for the checkpoint.
const char* reason_not_kept(const UnexpectedMessage* kept) {
  const bool too_large = is_too_large(kept->bytes);
  if (kept->matched)
    return too_large ? "a message of 2 GiB or more is matched (MPI_Mprobe) and not received"
                     : "the MPI library cannot receive a message that is matched (MPI_Mprobe)";
  return too_large ? "a message of 2 GiB or more is in flight" : kCannotReceive;
}

/// unexpected_fill() for a checkpoint, which fails if it cannot be. Returns whether it could.
bool unexpected_keep(UnexpectedMessage* kept) {
  if (unexpected_fill(kept) == kSuccess) return true;
  fail_checkpoint(reason_not_kept(kept));
  return false;
}

}  // namespace

void unexpected_append(UnexpectedMessage* kept) {
  Comm* const comm = kept->comm;
  kept->next = nullptr;
  kept->previous = comm->unexpected_last;
  (comm->unexpected_last ? comm->unexpected_last->next : comm->unexpected_first) = kept;
  comm->unexpected_last = kept;
}

void unexpected_unlink(UnexpectedMessage* kept) {
  Comm* const comm = kept->comm;
  (kept->previous ? kept->previous->next : comm->unexpected_first) = kept->next;
  (kept->next ? kept->next->previous : comm->unexpected_last) = kept->previous;
}

void unexpected_free(UnexpectedMessage* kept) {
  state().p2p.unexpected_messages--;
  state().p2p.unexpected_bytes -= kept->bytes;
  arena_free(kept->data);
  arena_free(kept);
}

bool unexpected_arrived(UnexpectedMessage* kept) {
  if (kept->state != UnexpectedState::kFilling) return kept->state == UnexpectedState::kWhole;
  int flag = 0;
  CanonStatus status{};
  const int error = lower().Test(&kept->real.request, &flag, &status);
  if (!flag && error == kSuccess) return false;
  if (error) fail_checkpoint(kCannotReceive);
  kept->error = error;
  kept->state = UnexpectedState::kWhole;
  kept->real.request = {};
  state().p2p.unexpected_filling--;
  unexpected_count(kept);
  return true;
}

void fail_checkpoint(const char* reason) {
  state().safepoint.park.failed = true;
  state().safepoint.park.why_failed = reason;
}

bool unexpected_take_one(Comm* comm, i32 source) {
  int flag = 0;
  CanonStatus status{};
  const int error = lower().Iprobe(source, kAnyTag, comm->slot->real(), &flag, &status);
  if (error) fail_checkpoint(kCannotLook);
  if (error || !flag) return false;
  UnexpectedMessage* const kept = unexpected_new(comm, status);
  if (!unexpected_keep(kept)) {
    unexpected_free(kept);
    return false;
  }
  unexpected_append(kept);
  return true;
}

bool unexpected_take_held(const Comm* comm, i32 source) {
  if (FERMATA_LIKELY(state().p2p.unexpected_held == 0)) return false;
  UnexpectedMessage* kept = comm->unexpected_first;
  while (kept && (kept->state != UnexpectedState::kHeld || source != kept->source))
    kept = kept->next;
  return kept && unexpected_keep(kept);
}

void unexpected_take_all_held(const Comm* comm) {
  for (UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
    if (kept->state == UnexpectedState::kHeld && !unexpected_keep(kept)) return;
}

bool unexpected_hold_one(Comm* comm, i32 source) {
  int flag = 0;
  RealMessage message{};
  CanonStatus status{};
  const int error =
      lower().Improbe(source, kAnyTag, comm->slot->real(), &flag, &message, &status);
  if (error) fail_checkpoint(kCannotLook);
  if (error || !flag) return false;
  UnexpectedMessage* const kept = unexpected_new(comm, status);
  kept->state = UnexpectedState::kHeld;
  kept->real.message = message;
  unexpected_append(kept);
  unexpected_count(kept);
  state().p2p.unexpected_held++;
  return true;
}

int unpack_bytes(const void* data, u64 bytes, void* buffer, int count, RealDatatype datatype,
                 CanonStatus* status) {
  RealRequest receive{};
  int error = lower().Irecv(buffer, count, datatype, 0, 0, state().lower.self, &receive);
  if (error) return error;
  error = lower().Send(data, int(bytes), state().lower.byte, 0, 0, state().lower.self);
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

void send_receipt(i32 to, i32 tag) {
  if (lower().Send(nullptr, 0, state().lower.byte, to, tag, state().p2p.own_comm->real()))
    fatal("the MPI library refuses a message of the checkpoint");  // its sender would wait for ever
  state().p2p.sent[to]++;
}
void give_receipt(UnexpectedMessage* kept) {
  if (FERMATA_UNLIKELY(kept->owed_tag != 0)) send_receipt(kept->owed_to, kept->owed_tag);
  kept->owed_tag = 0;
}

int unexpected_complete(UnexpectedMessage* kept) {
  if (kept->state == UnexpectedState::kFound || kept->state == UnexpectedState::kHeld)
    if (const int error = unexpected_fill(kept)) return error;
  unexpected_await(kept);
  return kSuccess;
}

void unexpected_await(UnexpectedMessage* kept) {
  FERMATA_CHECK(
      kept->state == UnexpectedState::kFilling || kept->state == UnexpectedState::kWhole,
      "a message that is waited for is being received");
  for (Backoff backoff; !unexpected_arrived(kept);) between_polls_alone(backoff);
}

int unexpected_deliver(UnexpectedMessage* kept, void* buffer, int count, RealDatatype datatype,
                       CanonStatus* status) {
  unexpected_await(kept);
  unexpected_unlink(kept);
  give_receipt(kept);
  *status = unexpected_status(kept);
  int error = kept->error;
  if (!error) error = unpack_bytes(kept->data, kept->bytes, buffer, count, datatype, status);
  unexpected_free(kept);
  return error;
}

UnexpectedMessage* unexpected_new_matched(Comm* comm, RealMessage real, const CanonStatus& status) {
  UnexpectedMessage* const kept = unexpected_new(comm, status);
  kept->state = UnexpectedState::kHeld;
  kept->real.message = real;
  kept->matched = true;
  unexpected_count(kept);
  state().p2p.unexpected_matched++;
  return kept;
}

void unexpected_match_held(UnexpectedMessage* kept) {
  unexpected_unlink(kept);
  kept->matched = true;
  state().p2p.unexpected_held--;
  state().p2p.unexpected_matched++;
}

bool unexpected_fill_matched() {
  bool all = true;
  if (FERMATA_LIKELY(state().p2p.unexpected_matched == 0)) return true;
  for_each_live<kMessage>([&](MessageSlot* slot) {
    UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>(slot->object);
    if (kept->state == UnexpectedState::kHeld && !unexpected_keep(kept)) all = false;
  });
  return all;
}
bool unexpected_matched_arrived() {
  bool any = false;
  for_each_live<kMessage>([&](MessageSlot* slot) {
    UnexpectedMessage* const kept = static_cast<UnexpectedMessage*>(slot->object);
    if (kept->state == UnexpectedState::kFilling) any |= unexpected_arrived(kept);
  });
  return any;
}

int unexpected_receive(UnexpectedMessage* kept, RequestSlot* slot) {
  Request* const request = request_of(slot);
  RealRequest real{};
  const int error = lower().Imrecv(request->buffer, request->count, request->datatype->real(),
                                   &kept->real.message, &real);
  if (error && error != kErrTruncate) return error;
  if (kept->matched) {
    state().p2p.unexpected_matched--;
  } else {
    unexpected_unlink(kept);
    state().p2p.unexpected_held--;
  }
  give_receipt(kept);
  if (error == kSuccess) {
    state().p2p.received[kept->comm->members[kept->source]]--;
    if (is_persistent(request)) slot->own = slot->real();
    slot->real() = real;
    request->receive_mode = ReceiveMode::kHeld;
    request->state = RequestState::kActive;
  }
  unexpected_free(kept);
  return error;
}

}  // namespace fermata::mpi
