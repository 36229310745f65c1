// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/wait_edges.h"

#include "base/hash.h"
#include "frontend/callbacks.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/p2p/request.h"
#include "mpi/safepoint/obligations.h"
#include "mpi/safepoint/park.h"
#include "mpi/safepoint/sections.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

constexpr u64 kBeforeRaiseNs = 2'000'000;
constexpr u64 kToldByAgent = ~u64(0);  // a digest that no list has

void mark_nothing(const Wanted& wanted) {
  for (i32 rank = 0; rank < state().world.size; rank++) {
    wanted.senders[rank] = false;
    wanted.receivers[rank] = false;
  }
}

/// Of whole words. 0, which stands for "nobody", of none only.
u64 digest_of(const void* words, u64 bytes) {
  if (bytes == 0) return 0;
  u64 digest = kHashStart;
  for (u64 i = 0; i < bytes / sizeof(u64); i++)
    digest = hash_word(digest, static_cast<const u64*>(words)[i]);
  return digest ? digest : 1;
}

/// `edges` is room for two to every rank.
void note_wait(const Awaited& awaited, u64 now, Count* edges) {
  ThreadWait* const wait = own_wait();
  mark_awaited(awaited, wait->wanted);
  const u64 digest = digest_of(edges, list_edges(wait->wanted, edges) * sizeof(Count));
  const u32 epoch = state().safepoint.park.epoch;
  if (wait->epoch == epoch && wait->digest == digest) return;
  wait->epoch = epoch;
  wait->digest = digest;
  wait->since_ns = now;
}

/// What all threads wait for, each since a moment at least. Fills `edges`, returns their number.
/// *is_open: true if a thread has begun to wait only now.
u64 settled_edges(u64 now, Count* edges, bool* is_open) {
  const Core& core = state();
  const Wanted all = new_wanted();
  mark_nothing(all);
  for (const ThreadWait* wait = core.safepoint.waits; wait; wait = wait->next) {
    if (wait->epoch != core.safepoint.park.epoch || wait->digest == 0) continue;
    const bool is_settled = now - wait->since_ns >= kBeforeReportNs;
    if (!is_settled) *is_open = true;
    for (i32 rank = 0; rank < core.world.size && is_settled; rank++) {
      all.senders[rank] |= wait->wanted.senders[rank];
      all.receivers[rank] |= wait->wanted.receivers[rank];
    }
  }
  const u64 found = list_edges(all, edges);
  arena_free(all.senders);
  arena_free(all.receivers);
  return found;
}

}  // namespace

void mark_awaited(const Awaited& awaited, const Wanted& wanted) {
  mark_nothing(wanted);
  if (awaited.probed) mark_senders(awaited.probed, awaited.source, wanted.senders);
  for (i32 i = 0; i < awaited.count; i++)
    if (RequestSlot* const slot = awaited.request(i); !is_idle(slot)) mark_request(slot, wanted);
  for_each_live<kRequest>([&](RequestSlot* slot) {
    if (request_of(slot)->polled && is_send(request_of(slot))) mark_request(slot, wanted);
  });
}

u64 list_edges(const Wanted& wanted, Count* edges) {
  u64 found = 0;
  const Core& core = state();
  const NeedKind of_send = crossing().synchronous ? NeedKind::kReceipt : NeedKind::kRoom;
  for (i32 rank = 0; rank < core.world.size; rank++) {
    if (wanted.senders[rank])
      edges[found++] = Count{edge_key(NeedKind::kMessage, u32(rank)), core.p2p.received[rank] + 1};
    if (wanted.receivers[rank])
      edges[found++] = Count{edge_key(of_send, u32(rank)), core.p2p.sent[rank]};
  }
  return found;
}

Cause cause_of_running() {
  return held_back() || owes_collective() ? Cause::kOwn : Cause::kOthers;
}

bool hesitates(u64 since) {
  return cause_of_running() == Cause::kOthers && sys::now_ns() - since < kBeforeRaiseNs;
}

Wanted new_wanted() {
  const u64 ranks = u64(state().world.size);
  return Wanted{arena_array<bool>(ranks), arena_array<bool>(ranks)};
}

ThreadWait* own_wait() {
  Core& core = state();
  ThreadWait* wait = core.safepoint.waits;
  while (wait && wait->of != &front::tls_gate) wait = wait->next;
  if (!wait) {
    wait = arena_new<ThreadWait>();
    wait->of = &front::tls_gate;
    wait->wanted = new_wanted();
    wait->next = core.safepoint.waits;
    core.safepoint.waits = wait;
  }
  return wait;
}

void report_edges(const Awaited& awaited) {
  ParkState& park = state().safepoint.park;
  // The report: the cause, and two edges of every rank.
  u64* const payload = arena_array<u64>(1 + 4 * u64(state().world.size));
  Count* const edges = reinterpret_cast<Count*>(payload + 1);
  const u64 now = sys::now_ns();
  if (crossing().sending_told) {  // in our stead; that send has ended
    crossing().sending_told = 0;
    park.told = kToldByAgent;
  }
  note_wait(awaited, now, edges);
  bool is_open = false;
  const u64 count = settled_edges(now, edges, &is_open);
  const u64 bytes = sizeof(Cause) + count * sizeof(Count);
  payload[0] = u64(cause_of_running());
  const u64 digest = count ? digest_of(payload, bytes) : 0;
  if (digest != park.told && (count != 0 || !is_open)) {
    park.told = digest;
    (void)report(Report::kNeeds, payload, bytes);
  }
  arena_free(payload);
}

void forget_edges() {
  state().safepoint.park.told = 0;
  for (ThreadWait* wait = state().safepoint.waits; wait; wait = wait->next) wait->epoch = 0;
}

}  // namespace fermata::mpi
