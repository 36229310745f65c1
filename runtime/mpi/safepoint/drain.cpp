// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/drain.h"

#include "halves/crossing.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/io/files.h"
#include "mpi/objects/datatypes.h"
#include "mpi/p2p/receipts.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/rma/windows.h"
#include "mpi/safepoint/progress.h"
#include "mpi/safepoint/sections.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

constexpr u64 kLeavingNs = 2'000'000'000;

/// True while a request is active whose end the image must not miss: sends always, and collective
/// calls (which every member has begun by now).
bool has_active(bool collectives_only) {
  bool found = false;
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    if (request->state != RequestState::kActive || is_receive(request)) return;
    if (!collectives_only || is_collective(request)) found = true;
  });
  return found || (!collectives_only && synchronous_is_unfinished());
}

void report_sent() {
  const Core& core = state();
  Count* const payload = arena_array<Count>(u64(core.world.size));
  u64 n = 0;
  for (i32 rank = 0; rank < core.world.size; rank++)
    if (core.p2p.sent[rank]) payload[n++] = Count{u64(rank), core.p2p.sent[rank]};
  (void)report(Report::kSent, payload, n * sizeof(Count));
  arena_free(payload);
}

/// True if all messages that were sent to this rank are here, though some may only be held.
/// Preconditions: knows_expected().
bool all_have_come() {
  const Core& core = state();
  for (i32 rank = 0; rank < core.world.size; rank++)
    if (core.p2p.received[rank] < core.safepoint.expected[rank]) return false;
  return true;
}

/// A message came that its sender will send again after a restart: some rank continued too kept.
/// Preconditions: knows_expected().
bool received_too_much() {
  const Core& core = state();
  for (i32 rank = 0; rank < core.world.size; rank++)
    if (core.p2p.received[rank] > core.safepoint.expected[rank]) return true;
  return false;
}

/// Receives all that is held. True if all is whole.
bool received_everything() {
  const P2pState& p2p = state().p2p;
  for (const Comm* comm = state().comms.live; comm && p2p.unexpected_held; comm = comm->next)
    unexpected_take_all_held(comm);
  return state().p2p.unexpected_held == 0 && state().p2p.unexpected_filling == 0;
}

/// On a communicator that has been freed no request can be begun or made again after a restart.
/// `still`: what may come to its end meanwhile is none.
const char* reason_not_to_save(bool still) {
  if (crossing().connections) return kConnected;  // since the agent looked
  const char* reason = reason_not_to_save_files();
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    if (!needs_comm(request) || !comm_of(request->comm) || !comm_of(request->comm)->dead) return;
    if (still || has_persistent_real(request))
      reason = "a request is kept on a communicator that has been freed";
  });
  return reason;
}

}  // namespace

void report_parked(u64 version) {
  const u32 used = crossing().clocks_count;
  u64* const payload = arena_array<u64>(1 + 2 * u64(used));
  u64 n = 0;
  payload[n++] = version;
  for (u32 i = 0; i < used; i++) {
    if (!clocks()[i].comm_id) continue;
    payload[n++] = clocks()[i].comm_id;
    payload[n++] = clocks()[i].seq;
  }
  (void)report(Report::kParked, payload, n * sizeof(u64));
  arena_free(payload);
}

bool knows_expected() {
  Core& core = state();
  if (__atomic_load_n(&crossing().expected_version, __ATOMIC_ACQUIRE) != core.safepoint.park.epoch)
    return false;
  if (core.safepoint.park.expected_copied) return true;
  if (!core.safepoint.expected) core.safepoint.expected = arena_array<u64>(u64(core.world.size));
  for (i32 rank = 0; rank < core.world.size; rank++) core.safepoint.expected[rank] = 0;
  for (u64 i = 0; i < crossing().expected_count; i++) {
    const Count& expected = mailbox().expected[i];
    if (expected.key < u64(core.world.size)) core.safepoint.expected[expected.key] = expected.value;
  }
  core.safepoint.park.expected_copied = true;
  return true;
}

void drain_step() {
  ParkState& park = state().safepoint.park;
  if (!park.sent_reported) {
    if (has_active(true)) return;
    // What was sent on a freed communicator may never come: nobody is to wait for it.
    if (const char* const reason = reason_not_to_save(false)) return fail_checkpoint(reason);
    park.sent_reported = true;
    windows_flush();
    files_note_positions();
    types_note_bounds();
    arena_tidy();
    announce_synchronous();
    report_sent();
    return;
  }
  if (park.drained_reported || !knows_expected() || !all_have_come()) return;
  if (received_too_much()) return fail_checkpoint("it has received more messages than were sent");
  if (!received_everything()) return;
  answer_announcements();
  if (has_active(false)) return;
  if (const char* const reason = reason_not_to_save(true)) return fail_checkpoint(reason);
  park.drained_reported = true;
  const u64 payload[2] = {state().p2p.unexpected_messages, state().p2p.unexpected_bytes};
  (void)report(Report::kDrained, payload, sizeof payload);
}

void leave_drain() {
  const ParkState& park = state().safepoint.park;
  if (park.sent_reported && !park.drained_reported) {
    if (knows_expected()) {
      const u64 until = sys::now_ns() + kLeavingNs;
      while (!all_have_come() && sys::now_ns() < until)
        if (!make_progress(TakeIn::kAll)) (void)sys::call(SYS_sched_yield);
      answer_announcements();
    } else {
      take_announcements_back();
    }
  }
  send_owed_receipts();
}

}  // namespace fermata::mpi
