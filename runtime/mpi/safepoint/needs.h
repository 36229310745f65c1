// SPDX-License-Identifier: Apache-2.0
// What a rank that must run on waits for: told to the coordinator, which makes others help it.
//
// Of a receive: its senders run on until one has sent a message more. Of a send: its receiver, if
// it is parked, takes in what it needs room for; or, once this program has used synchronous sends,
// runs on until it has matched the message, because who only takes it in would end those before
// their receive. A send that the lower half itself waits in, the agent tells (agent/sending.cpp).
//
// Told is what a call waits for, and the sends that the program tests again and again, nothing
// else: two ranks that asked for what they do not wait for could keep each other running. When
// the call has ended, the way out of it takes the word back. A wait is told only when nothing has
// come for a moment: a rank that gets on by itself costs no word. What the threads of a rank wait
// for is told together.
//
// Told with it is why the rank runs on at all. Where only others keep it running, its needs count
// as long as theirs do: two ranks whose threads wait for each other would keep each other running
// otherwise (decision 0049).
//
// The receiver counts what it has taken of all that was sent to it, in whatever order; so the need
// of a send names the last message that was sent there, not its own number.
//
// Invariant: a need for a message counts those that have come. So whoever has told one looks at all
//            that comes from there, and holds it (unexpected.h): a message with another tag would
//            stay uncounted, and its sender would believe that it had done its part.
#pragma once

#include "base/hash.h"
#include "mpi/p2p/request.h"
#include "mpi/safepoint/sections.h"

namespace fermata::mpi {

inline constexpr u64 kBeforeNeedNs = 500'000;
inline constexpr u64 kBeforeRaiseNs = 2'000'000;
inline constexpr u64 kToldByAgent = ~u64(0);  // a digest that no list has

inline bool is_other_rank(i32 rank) {
  return rank >= 0 && rank < state().world_size && rank != state().world_rank;
}

/// A receive or probe that may match a message of this peer, or of any one.
inline void mark_senders(const Comm* comm, i32 source, bool* senders) {
  for (i32 peer = 0; peer < peers_of(comm); peer++) {
    const i32 rank = comm->members[peer];
    if ((source == kAnySource || source == peer) && is_other_rank(rank)) senders[rank] = true;
  }
}

void mark_partitioned(const Request* request, const Wanted& wanted);  // partitioned.h

inline void mark_request(Slot* slot, const Wanted& wanted) {
  const Request* const request = request_of(slot);
  if (request->kind == RequestKind::kPartitioned) return mark_partitioned(request, wanted);
  const bool is_active = request->state == RequestState::kActive;
  if (is_send(request)) {
    const bool has_to_end = is_active || request->state == RequestState::kPending;
    if (has_to_end && is_other_rank(request->receiver)) wanted.receivers[request->receiver] = true;
  } else if (is_active && is_receive(request) && request->comm) {
    if (const Comm* const comm = comm_of(request->comm))
      mark_senders(comm, request->peer, wanted.senders);
  }
}

inline void mark_nothing(const Wanted& wanted) {
  for (i32 rank = 0; rank < state().world_size; rank++) {
    wanted.senders[rank] = false;
    wanted.receivers[rank] = false;
  }
}

inline void mark_awaited(const Awaited& awaited, const Wanted& wanted) {
  mark_nothing(wanted);
  if (awaited.probed) mark_senders(awaited.probed, awaited.source, wanted.senders);
  for (i32 i = 0; i < awaited.count; i++)
    if (Slot* const slot = awaited.request(i); !is_idle(slot)) mark_request(slot, wanted);
  for_each_live(kRequest, [&](Slot* slot) {
    if (request_of(slot)->polled && is_send(request_of(slot))) mark_request(slot, wanted);
  });
}

/// Fills `needs`, which has room for two of every rank. Returns their number.
inline u64 list_needs(const Wanted& wanted, Count* needs) {
  u64 found = 0;
  const Core& core = state();
  const NeedKind of_send = crossing().synchronous ? NeedKind::kReceipt : NeedKind::kRoom;
  for (i32 rank = 0; rank < core.world_size; rank++) {
    if (wanted.senders[rank])
      needs[found++] = Count{need_key(NeedKind::kMessage, u32(rank)), core.received[rank] + 1};
    if (wanted.receivers[rank])
      needs[found++] = Count{need_key(of_send, u32(rank)), core.sent[rank]};
  }
  return found;
}

/// Why this rank does not park. Preconditions: it has a known duty, or is held back.
inline Cause cause_of_running() {
  return held_back() || owes_collective() ? Cause::kOwn : Cause::kOthers;
}

/// A rank that only others keep running may be about to be let go: the rank that all of it began
/// with has made its last call together with this one, and needs a moment to say so. Who raises a
/// target at once makes that rank owe the next call, and so on.
inline bool hesitates(u64 since) {
  return cause_of_running() == Cause::kOthers && sys::now_ns() - since < kBeforeRaiseNs;
}

/// Of whole words. 0, which stands for "nobody", of none only.
inline u64 digest_of(const void* words, u64 bytes) {
  if (bytes == 0) return 0;
  u64 digest = kHashStart;
  for (u64 i = 0; i < bytes / sizeof(u64); i++)
    digest = hash_word(digest, static_cast<const u64*>(words)[i]);
  return digest ? digest : 1;
}

inline Wanted new_wanted() {
  const u64 ranks = u64(state().world_size);
  return Wanted{arena_array<bool>(ranks), arena_array<bool>(ranks)};
}

/// There are never more entries than threads have been there at one time.
inline ThreadWait* own_wait() {
  Core& core = state();
  ThreadWait* wait = core.waits;
  while (wait && wait->of != &front::tls_gate) wait = wait->next;
  if (!wait) {
    wait = arena_new<ThreadWait>();
    wait->of = &front::tls_gate;
    wait->wanted = new_wanted();
    wait->next = core.waits;
    core.waits = wait;
  }
  return wait;
}

/// `needs` is room for two of every rank.
inline void note_wait(const Awaited& awaited, u64 now, Count* needs) {
  ThreadWait* const wait = own_wait();
  mark_awaited(awaited, wait->wanted);
  const u64 digest = digest_of(needs, list_needs(wait->wanted, needs) * sizeof(Count));
  const u32 epoch = state().park.epoch;
  if (wait->epoch == epoch && wait->digest == digest) return;
  wait->epoch = epoch;
  wait->digest = digest;
  wait->since_ns = now;
}

/// What all threads wait for, each since a moment at least. Fills `needs`, returns their number.
/// *is_open: true if a thread has begun to wait only now.
inline u64 settled_needs(u64 now, Count* needs, bool* is_open) {
  const Core& core = state();
  const Wanted all = new_wanted();
  mark_nothing(all);
  for (const ThreadWait* wait = core.waits; wait; wait = wait->next) {
    if (wait->epoch != core.park.epoch || wait->digest == 0) continue;
    const bool is_settled = now - wait->since_ns >= kBeforeNeedNs;
    if (!is_settled) *is_open = true;
    for (i32 rank = 0; rank < core.world_size && is_settled; rank++) {
      all.senders[rank] |= wait->wanted.senders[rank];
      all.receivers[rank] |= wait->wanted.receivers[rank];
    }
  }
  const u64 found = list_needs(all, needs);
  arena_free(all.senders);
  arena_free(all.receivers);
  return found;
}

/// This rank has a duty, and this is what the thread waits for now: if that is news, and not of the
/// last moment, it is told. That it waits for nobody any more is told at once.
inline void tell_needs(const Awaited& awaited) {
  ParkState& park = state().park;
  // The report: the cause, and two needs of every rank.
  u64* const payload = arena_array<u64>(1 + 4 * u64(state().world_size));
  Count* const needs = reinterpret_cast<Count*>(payload + 1);
  const u64 now = sys::now_ns();
  if (crossing().sending_told) {  // in our stead; that send has ended
    crossing().sending_told = 0;
    park.told = kToldByAgent;
  }
  note_wait(awaited, now, needs);
  bool is_open = false;
  const u64 count = settled_needs(now, needs, &is_open);
  const u64 bytes = sizeof(Cause) + count * sizeof(Count);
  payload[0] = u64(cause_of_running());
  const u64 digest = count ? digest_of(payload, bytes) : 0;
  if (digest != park.told && (count != 0 || !is_open)) {
    park.told = digest;
    (void)report(Report::kNeeds, payload, bytes);
  }
  arena_free(payload);
}

/// PARKED takes back what has been told, and who waits begins anew.
inline void forget_needs() {
  state().park.told = 0;
  for (ThreadWait* wait = state().waits; wait; wait = wait->next) wait->epoch = 0;
}

}  // namespace fermata::mpi
