// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/receipts.h"

#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/p2p/own_tags.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/request.h"

namespace fermata::mpi {
namespace {

/// Null if it is not known, or not any more.
SynchronousSend* synchronous_of(const Request* request) {
  SynchronousSend* send = state().p2p.synchronous;
  while (send && request_of(send->slot) != request) send = send->next;
  return send;
}

/// Looks whether the lower half has finished an announced send.
bool poll_announced(SynchronousSend* send) {
  if (!send->unfinished) return false;
  int flag = 0;
  CanonStatus status{};
  const int error = lower().Test(&send->slot->real(), &flag, &status);
  if (!flag && error == kSuccess) return false;
  request_of(send->slot)->error = error;
  send->unfinished = false;
  return true;
}

void give_up_receipt(SynchronousSend* send) {
  may_fail(lower().Cancel(&send->receipt->real()), "then a late receipt ends this receive");
  request_of(send->receipt)->holder = Holder::kNobody;
  send->receipt = nullptr;
}

void announce(SynchronousSend* send) {
  Core& core = state();
  DatatypeSlot* const byte = slot_at<kDatatype>(kByte);
  core.p2p.receipt_tag = next_receipt_tag(core.p2p.receipt_tag);
  send->word.receipt_tag = core.p2p.receipt_tag;
  RequestSlot* told = nullptr;
  if (receive_begin(nullptr, 0, byte, send->receiver, core.p2p.receipt_tag, core.p2p.own_comm,
                    &send->receipt) ||
      send_begin(&MpiCalls::Isend, &send->word, int(sizeof send->word), byte, send->receiver,
                 kAnnouncementTag, core.p2p.own_comm, &told))
    fatal("the MPI library refuses a message of the checkpoint");
  if (told != core.p2p.completed) request_of(told)->holder = Holder::kNobody;
  send->unfinished = true;
  request_of(send->slot)->error = kSuccess;
  send->epoch = core.safepoint.park.epoch;
  request_of(send->slot)->state = RequestState::kPending;
}

void answer(i32 sender, const Announcement& word) {
  Core& core = state();
  if (UnexpectedMessage* const kept = find_announced(sender, word)) {
    kept->owed_to = sender;
    kept->owed_tag = word.receipt_tag;
    return;
  }
  auto* const owed = arena_new<OwedReceipt>();
  *owed = OwedReceipt{core.p2p.owed, sender, word.receipt_tag};
  core.p2p.owed = owed;
}

}  // namespace

void synchronous_begin(RequestSlot* slot, const CommSlot* comm, int tag) {
  Request* const request = request_of(slot);
  const Comm* const c = static_cast<const Comm*>(comm->object);
  if (request->receiver < 0 || c->outside) return;
  request->mode = SendMode::kSynchronous;
  if (request->kind == RequestKind::kSend) request->owns = true;
  auto* const send = arena_new<SynchronousSend>();
  send->next = state().p2p.synchronous;
  send->slot = slot;
  send->receiver = request->receiver;
  send->word = Announcement{c->id, tag, 0, 0};
  state().p2p.synchronous = send;
  crossing().synchronous = 1;
}

void note_behind(u64 comm_id, i32 receiver, int tag) {
  for (SynchronousSend* send = state().p2p.synchronous; send; send = send->next)
    if (send->receiver == receiver && send->word.comm_id == comm_id && send->word.tag == tag)
      send->word.behind++;
}

void synchronous_end(const Request* request) {
  for (SynchronousSend** at = &state().p2p.synchronous; *at; at = &(*at)->next) {
    SynchronousSend* const send = *at;
    if (request_of(send->slot) != request) continue;
    *at = send->next;
    arena_free(send);
    return;
  }
}

bool receipt_is_missing(RequestSlot* slot) {
  Request* const request = request_of(slot);
  SynchronousSend* const send = synchronous_of(request);
  if (!send || !send->receipt) return false;
  if (request_of(send->receipt)->state == RequestState::kActive)
    (void)complete_if_finished(send->receipt);
  (void)poll_announced(send);
  const Request* const receipt = request_of(send->receipt);
  const bool has_come = receipt->state != RequestState::kActive;
  if (send->unfinished || (!has_come && request->error == kSuccess)) return true;
  if (has_come) {
    if (request->error == kSuccess) request->error = receipt->error;
    request_release(send->receipt);
    send->receipt = nullptr;
  } else {  // the send has failed: there will be none
    give_up_receipt(send);
  }
  request->status = empty_status();
  request->state = RequestState::kDone;
  if (request->holder == Holder::kNobody) may_leak(request_release_freed(slot));
  return false;
}

void announce_synchronous() {
  for (SynchronousSend* send = state().p2p.synchronous; send; send = send->next)
    if (request_of(send->slot)->state == RequestState::kActive) announce(send);
}

bool poll_synchronous() {
  bool moved = false;
  for (SynchronousSend* send = state().p2p.synchronous; send; send = send->next)
    moved |= poll_announced(send);
  return moved;
}
bool synchronous_is_unfinished() {
  for (const SynchronousSend* send = state().p2p.synchronous; send; send = send->next)
    if (send->unfinished) return true;
  return false;
}

UnexpectedMessage* find_announced(i32 sender, const Announcement& word) {
  Comm* comm = state().comms.live;
  while (comm && comm->id != word.comm_id) comm = comm->next;
  if (!comm) return nullptr;
  u64 behind = 0;
  for (UnexpectedMessage* kept = comm->unexpected_last; kept; kept = kept->previous)
    if (comm->members[kept->source] == sender && kept->tag == word.tag && behind++ == word.behind)
      return kept;
  return nullptr;
}

void answer_announcements() {
  Comm* const comm = comm_of(state().p2p.own_comm);
  for (UnexpectedMessage *kept = comm->unexpected_first, *next; kept; kept = next) {
    next = kept->next;
    if (!is_announcement(kept->tag)) continue;
    Announcement word;
    if (unexpected_complete(kept))
      return fail_checkpoint("the MPI library cannot receive a message of the checkpoint");
    unexpected_unlink(kept);
    // Empty: a receipt that nobody awaits any more. With an error: the checkpoint has failed.
    if (kept->bytes == sizeof word && !kept->error) {
      __builtin_memcpy(&word, kept->data, sizeof word);
      answer(kept->source, word);
    }
    unexpected_free(kept);
  }
}

void send_owed_receipts() {
  while (OwedReceipt* const owed = state().p2p.owed) {
    state().p2p.owed = owed->next;
    send_receipt(owed->to, owed->tag);
    arena_free(owed);
  }
}

void take_announcements_back() {
  for (SynchronousSend* send = state().p2p.synchronous; send; send = send->next) {
    if (!send->receipt || send->epoch != state().safepoint.park.epoch) continue;
    Request* const request = request_of(send->slot);
    give_up_receipt(send);
    request->state = send->unfinished ? RequestState::kActive : RequestState::kDone;
    request->status = empty_status();
    send->unfinished = false;
  }
}

}  // namespace fermata::mpi
