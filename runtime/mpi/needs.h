// SPDX-License-Identifier: Apache-2.0
// What a rank waits for that must run on: told to the coordinator, which makes those ranks run on.
//
// Told are the senders that a call waits for, no others: two ranks that asked for what they do not
// wait for could keep each other running for ever. When the call has ended, the way out of it takes
// the word back. A wait is told only when nothing has come for a moment: a rank that gets on by
// itself costs no word. What the threads of a rank wait for is told together.
//
// Invariant: a need counts messages that have come in. So whoever has told one takes in what comes
//            (park.h): a message with another tag would stay uncounted, and its sender would
//            believe that it had done its part.
#pragma once

#include "mpi/request.h"
#include "mpi/sections.h"

namespace fermata::mpi {

inline constexpr u64 kBeforeNeedNs = 500'000;

/// A receive or probe that may match a message of this peer, or of any one.
inline void mark_senders(const Comm* comm, i32 source, bool* senders) {
  const Core& core = state();
  for (i32 peer = 0; peer < peers_of(comm); peer++) {
    const i32 rank = comm->members[peer];
    const bool is_meant = source == kAnySource || source == peer;
    if (is_meant && rank < core.world_size && rank != core.world_rank) senders[rank] = true;
  }
}

inline void mark_awaited(const Awaited& awaited, bool* senders) {
  for (i32 rank = 0; rank < state().world_size; rank++) senders[rank] = false;
  if (awaited.probed) mark_senders(awaited.probed, awaited.source, senders);
  for (i32 i = 0; i < awaited.count; i++) {
    if (is_idle(awaited.requests[i])) continue;
    const Request* const request = request_of(awaited.requests[i]);
    if (request->state != RequestState::kActive || !is_receive(request) || !request->comm) continue;
    if (const Comm* const comm = comm_of(request->comm)) mark_senders(comm, request->peer, senders);
  }
}

/// Fills `needs`, which has room for every rank: a message more of each. Returns their number.
inline u64 list_needs(const bool* senders, Count* needs) {
  u64 found = 0;
  for (i32 rank = 0; rank < state().world_size; rank++)
    if (senders[rank])
      needs[found++] =
          Count{need_key(NeedKind::kMessage, u32(rank)), state().received[rank] + 1};
  return found;
}

/// FNV-1a over the words; never 0, which stands for "nobody".
inline u64 digest_of(const Count* needs, u64 count) {
  if (count == 0) return 0;
  u64 digest = 0xcbf2'9ce4'8422'2325;
  const auto mix = [&](u64 word) {
    digest = (digest ^ word) * 0x100'0000'01b3;
    digest ^= digest >> 29;
  };
  for (u64 i = 0; i < count; i++) {
    mix(needs[i].key);
    mix(needs[i].value);
  }
  return digest ? digest : 1;
}

/// There are never more entries than threads have been there at one time.
inline ThreadWait* own_wait() {
  Core& core = state();
  ThreadWait* wait = core.waits;
  while (wait && wait->of != &front::tls_gate) wait = wait->next;
  if (!wait) {
    wait = arena_new<ThreadWait>();
    wait->of = &front::tls_gate;
    wait->senders = arena_array<bool>(u64(core.world_size));
    wait->next = core.waits;
    core.waits = wait;
  }
  return wait;
}

/// `needs` is room for every rank.
inline void note_wait(const Awaited& awaited, u64 now, Count* needs) {
  ThreadWait* const wait = own_wait();
  mark_awaited(awaited, wait->senders);
  const u64 digest = digest_of(needs, list_needs(wait->senders, needs));
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
  bool* const senders = arena_array<bool>(u64(core.world_size));
  for (i32 rank = 0; rank < core.world_size; rank++) senders[rank] = false;
  for (const ThreadWait* wait = core.waits; wait; wait = wait->next) {
    if (wait->epoch != core.park.epoch || wait->digest == 0) continue;
    const bool is_settled = now - wait->since_ns >= kBeforeNeedNs;
    if (!is_settled) *is_open = true;
    for (i32 rank = 0; rank < core.world_size && is_settled; rank++)
      senders[rank] |= wait->senders[rank];
  }
  const u64 found = list_needs(senders, needs);
  arena_free(senders);
  return found;
}

/// This rank has a duty, and this is what the thread waits for now: if that is news, and not of the
/// last moment, it is told. That it waits for nobody any more is told at once.
inline void tell_needs(const Awaited& awaited) {
  ParkState& park = state().park;
  Count* const needs = arena_array<Count>(u64(state().world_size));
  const u64 now = sys::now_ns();
  note_wait(awaited, now, needs);
  bool is_open = false;
  const u64 count = settled_needs(now, needs, &is_open);
  const u64 digest = digest_of(needs, count);
  if (digest != park.told && (count != 0 || !is_open)) {
    park.told = digest;
    report(Report::kNeeds, needs, count * sizeof(Count));
  }
  arena_free(needs);
}

/// PARKED takes back what has been told, and who waits begins anew.
inline void forget_needs() {
  state().park.told = 0;
  for (ThreadWait* wait = state().waits; wait; wait = wait->next) wait->epoch = 0;
}

}  // namespace fermata::mpi
