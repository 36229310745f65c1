// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/partitioned.h"

#include "halves/mpi_calls.gen.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/references.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/isendrecv.h"
#include "mpi/p2p/matched.h"
#include "mpi/p2p/own_tags.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/persistent.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {
namespace {

Partitioned* partitioned_of(const Request* request) { return request->partitioned; }

u64 ready_words(const Partitioned* of) { return (u64(of->partitions) + 63) / 64; }

bool is_unintroduced(const Partitioned* of) {
  return !of->sends && !of->message && of->other >= 0;
}

void make_message(Partitioned* of, i32 channel) {
  const Request* const request = request_of(of->request);
  const RequestKind kind = of->sends ? RequestKind::kPersistentSend : RequestKind::kPersistentRecv;
  if (persistent_new(kind, SendMode::kStandard, request->buffer, request->count, request->datatype,
                     of->other, channel, state().p2p.own_comm, &of->message))
    fatal("the MPI library refuses a partitioned message");
}

/// The introduction of a receive has come. If it has been started meanwhile, it begins now.
void introduce(Partitioned* of, i32 channel) {
  if (!of->request) return arena_free(of);
  make_message(of, channel);
  Request* const request = request_of(of->request);
  if (request->state != RequestState::kPending) return;
  request->error = persistent_start(of->message);
  if (request->error) request->state = RequestState::kDone;
}

bool is_meant(const Partitioned* of, const Introduced& came) {
  return of->other == came.from && of->comm_id == came.word.comm_id && of->tag == came.word.tag;
}

void accept(const Introduced& came) {
  Core& core = state();
  for (Partitioned** at = &core.p2p.unintroduced; *at; at = &(*at)->next) {
    Partitioned* const of = *at;
    if (!is_meant(of, came)) continue;
    *at = of->next;
    return introduce(of, came.word.channel);
  }
  Introduced** end = &core.p2p.introductions;
  while (*end) end = &(*end)->next;
  *end = arena_new<Introduced>();
  **end = came;
}

/// Takes in the introductions that have come.
[[gnu::noinline]] void take_introductions() {
  CommSlot* const own = state().p2p.own_comm;
  for (;;) {
    int flag = 0;
    MessageSlot* message = nullptr;
    CanonStatus status{};
    if (probe_matched(kAnySource, kIntroductionTag, own, &flag, &message, &status) || !flag) return;
    Introduced came{nullptr, status.source, {}};
    if (receive_matched(&came.word, sizeof came.word, slot_at<kDatatype>(kByte), &message, &status))
      fatal("the MPI library refuses a message about a partitioned one");
    accept(came);
  }
}

/// Of a receive that has just been made: its introduction may have come before.
void find_introduction(Partitioned* of) {
  Core& core = state();
  take_introductions();
  for (Introduced** at = &core.p2p.introductions; *at; at = &(*at)->next) {
    Introduced* const came = *at;
    if (!is_meant(of, *came)) continue;
    *at = came->next;
    make_message(of, came->word.channel);
    return arena_free(came);
  }
  Partitioned** end = &core.p2p.unintroduced;
  while (*end) end = &(*end)->next;
  *end = of;
}

/// Chooses a channel for a send and tells its receiver.
int open_channel(Partitioned* of) {
  Core& core = state();
  core.p2p.channel = next_channel(core.p2p.channel);
  auto* const word = arena_new<ChannelWord>();
  *word = ChannelWord{of->comm_id, of->tag, core.p2p.channel};
  make_message(of, core.p2p.channel);
  return send_kept(word, sizeof *word, of->other, kIntroductionTag, core.p2p.own_comm);
}

/// All partitions of a send are ready.
int send_partitions(Partitioned* of) {
  if (of->message) return persistent_start(of->message);
  Request* const request = request_of(of->request);
  request->status = empty_status();
  request->error = kSuccess;
  request->state = RequestState::kDone;
  return kSuccess;
}

/// The message of a request has come to its end, and so has the request.
void partitioned_finish(Request* request) {
  Partitioned* const of = partitioned_of(request);
  Request* const message = request_of(of->message);
  request->status = empty_status();
  if (!of->sends) {
    request->status = message->status;
    request->status.source = request->peer;
    request->status.tag = of->tag;
  }
  request->error = message->error;
  request->state = RequestState::kDone;
  take_own_request_back(of->message);
  message->state = RequestState::kInactive;
  message->polled = false;
}

int partitioned_new(bool sends, const void* buf, int partitions, i64 count, DatatypeSlot* datatype,
                    int peer, int tag, CommSlot* comm, RequestSlot** handle) {
  LowerScope scope;
  const Comm* const c = live_comm(comm);
  if (!c) return kErrComm;
  if (c->outside) return kErrUnsupportedOperation;
  if (partitions < 0) return kErrArg;
  if (count < 0) return kErrCount;
  if (peer != kProcNull && u32(peer) >= u32(peers_of(c))) return kErrRank;
  if (tag < 0) return kErrTag;
  i64 elements = 0;
  if (__builtin_mul_overflow(count, i64(partitions), &elements) || elements != i32(elements))
    return kErrValueTooLarge;
  RequestSlot* const slot = request_slot_new();
  Request* const request = request_of(slot);
  fill_recipe(request, RequestKind::kPartitioned, const_cast<void*>(buf), i32(elements), datatype,
              peer, tag, nullptr);
  request->object = nullptr;
  request->wants_status = false;
  request->owns = true;
  request->state = RequestState::kInactive;
  slot->real() = state().lower.request_null;
  auto* const of = arena_new<Partitioned>();
  of->request = slot;
  of->comm_id = c->id;
  of->tag = tag;
  of->other = peer == kProcNull ? -1 : c->members[peer];
  of->sends = sends;
  of->partitions = partitions;
  if (sends) of->is_ready = arena_array<u64>(ready_words(of) + 1);
  request->partitioned = of;
  *handle = slot;
  if (of->other < 0) return kSuccess;
  if (sends) return open_channel(of);
  find_introduction(of);
  return kSuccess;
}

/// Of a send: partitions `first` to `last` are ready.
int partitions_ready(RequestSlot* slot, int first, int last) {
  LowerScope scope;
  if (is_null_request(slot)) return kErrRequest;
  Request* const request = request_of(slot);
  if (request->kind != RequestKind::kPartitioned || request->state != RequestState::kPending)
    return kErrRequest;
  Partitioned* const of = partitioned_of(request);
  if (!of->sends) return kErrRequest;
  if (first < 0 || last >= of->partitions) return kErrArg;
  for (i32 i = first; i <= last; i++) {
    u64& word = of->is_ready[i / 64];
    const u64 bit = u64(1) << i % 64;
    if (word & bit) return kErrArg;  // it has been ready before
    word |= bit;
    of->ready++;
  }
  return first <= last && of->ready == of->partitions ? send_partitions(of) : int(kSuccess);
}

}  // namespace

void take_last_introductions() {
  constexpr u32 kPolls = 10'000;
  for (u32 i = 0; state().p2p.unintroduced && i < kPolls; i++) take_introductions();
}

int partitioned_start(RequestSlot* slot) {
  Request* const request = request_of(slot);
  Partitioned* const of = partitioned_of(request);
  of->ready = 0;
  if (of->sends) __builtin_memset(of->is_ready, 0, ready_words(of) * sizeof(u64));
  request->error = kSuccess;
  request->polled = false;
  request->state = RequestState::kPending;
  int error = kSuccess;
  if (of->sends) {
    if (of->partitions == 0) error = send_partitions(of);
  } else if (of->message) {
    error = persistent_start(of->message);
  } else if (of->other >= 0) {
    take_introductions();
  } else {
    request->status = proc_null_status();
    request->state = RequestState::kDone;
  }
  if (error) request->state = RequestState::kInactive;
  return error;
}

bool partitioned_is_pending(RequestSlot* slot) {
  Request* const request = request_of(slot);
  const Partitioned* const of = partitioned_of(request);
  if (is_unintroduced(of)) take_introductions();
  if (request->state != RequestState::kPending) return false;
  if (!of->message || (of->sends && of->ready < of->partitions)) return true;
  Request* const message = request_of(of->message);
  if (checkpoint_wanted()) message->polled = true;  // wait_edges.h
  if (message->state == RequestState::kActive && !complete_if_finished(of->message)) return true;
  partitioned_finish(request);
  return false;
}

void partitioned_free(Request* request) {
  Partitioned* const of = partitioned_of(request);
  type_unref(request->datatype);
  of->request = nullptr;
  if (of->message) may_leak(request_release_freed(of->message));
  arena_free(of->is_ready);
  if (!is_unintroduced(of)) arena_free(of);  // else its introduction is still to come
}

void mark_partitioned(const Request* request, const Wanted& wanted) {
  const Partitioned* const of = partitioned_of(request);
  if (of->message) mark_request(of->message, wanted);
  else if (is_unintroduced(of) && request->state == RequestState::kPending)
    mark_senders(comm_of(state().p2p.own_comm), of->other, wanted.senders);
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Psend_init(const void* buf, int partitions, i64 count, DatatypeSlot* datatype, int dest,
               int tag, CommSlot* comm, InfoSlot*, RequestSlot** request) {
  return partitioned_new(true, buf, partitions, count, datatype, dest, tag, comm, request);
}
int Precv_init(void* buf, int partitions, i64 count, DatatypeSlot* datatype, int source, int tag,
               CommSlot* comm, InfoSlot*, RequestSlot** request) {
  return partitioned_new(false, buf, partitions, count, datatype, source, tag, comm, request);
}

int Pready(int partition, RequestSlot* request) {
  return partitions_ready(request, partition, partition);
}
int Pready_range(int low, int high, RequestSlot* request) {
  return partitions_ready(request, low, high);
}
int Pready_list(int length, const int* list, RequestSlot* request) {
  for (int i = 0; i < length; i++)
    if (const int error = partitions_ready(request, list[i], list[i])) return error;
  return kSuccess;
}

/// A partition has arrived when all have.
int Parrived(RequestSlot* slot, int partition, int* flag) {
  LowerScope scope;
  if (is_null_request(slot)) return kErrRequest;
  const Request* const request = request_of(slot);
  if (request->kind != RequestKind::kPartitioned) return kErrRequest;
  const Partitioned* const of = partitioned_of(request);
  if (of->sends) return kErrRequest;
  if (partition < 0 || partition >= of->partitions) return kErrArg;
  *flag = request->state != RequestState::kPending || !partitioned_is_pending(slot);
  if (!*flag) note_polled(slot);
  return kSuccess;
}

}  // namespace fermata::mpi::core
