// SPDX-License-Identifier: Apache-2.0
// What a rank waits for that must run on: told to the coordinator, which makes those ranks run on.
//
// Told are the senders that a call waits for, no others: two ranks that asked for what they do not
// wait for could keep each other running for ever. When the call has ended, the way out of it takes
// the word back. A wait is told only when nothing has come for a moment: a rank that gets on by
// itself costs no word.
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
inline void mark_senders(const Comm* comm, i32 source, bool* awaited) {
  const Core& core = state();
  for (i32 peer = 0; peer < peers_of(comm); peer++) {
    const i32 rank = comm->members[peer];
    const bool is_meant = source == kAnySource || source == peer;
    if (is_meant && rank < core.world_size && rank != core.world_rank) awaited[rank] = true;
  }
}

/// Fills `needs`, which has room for every rank. Returns their number.
inline u64 collect_needs(const Awaited& waits_for, Count* needs) {
  const Core& core = state();
  bool* const awaited = arena_array<bool>(u64(core.world_size));
  for (i32 rank = 0; rank < core.world_size; rank++) awaited[rank] = false;
  if (waits_for.probed) mark_senders(waits_for.probed, waits_for.source, awaited);
  for (i32 i = 0; i < waits_for.count; i++) {
    if (is_idle(waits_for.requests[i])) continue;
    const Request* const request = request_of(waits_for.requests[i]);
    if (request->state != RequestState::kActive || !is_receive(request) || !request->comm) continue;
    if (const Comm* const comm = comm_of(request->comm)) mark_senders(comm, request->peer, awaited);
  }
  u64 found = 0;
  for (i32 rank = 0; rank < core.world_size; rank++)
    if (awaited[rank])
      needs[found++] = Count{need_key(NeedKind::kMessage, u32(rank)), core.received[rank] + 1};
  arena_free(awaited);
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

/// This rank has a duty: if what it waits for is news, and not of the last moment, it is told. That
/// it waits for nobody any more is told at once.
inline void tell_needs(const Awaited& awaited) {
  ParkState& park = state().park;
  Count* const needs = arena_array<Count>(u64(state().world_size));
  const u64 count = collect_needs(awaited, needs);
  const u64 digest = digest_of(needs, count);
  const u64 now = sys::now_ns();
  if (digest != park.waits_for) {
    park.waits_for = digest;
    park.waits_since_ns = now;
  }
  const bool is_settled = digest == 0 || now - park.waits_since_ns >= kBeforeNeedNs;
  if (digest != park.told && is_settled) {
    park.told = digest;
    report(Report::kNeeds, needs, count * sizeof(Count));
  }
  arena_free(needs);
}

}  // namespace fermata::mpi
