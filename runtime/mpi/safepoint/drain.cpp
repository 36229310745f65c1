// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/drain.h"

#include "halves/crossing.h"
#include "mpi/gate/scopes.h"
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
#include "mpi/safepoint/obligations.h"
#include "mpi/safepoint/progress.h"
#include "mpi/safepoint/sections.h"
#include "sys/check.h"
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

u64 sent_in_all() {
  const Core& core = state();
  u64 sum = 0;
  for (i32 rank = 0; rank < core.world.size; rank++) sum += core.p2p.sent[rank];
  return sum;
}

void report_sent() {
  Core& core = state();
  core.safepoint.park.sent_in_all = sent_in_all();
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
    if (!windows_flush())
      return fail_checkpoint("the MPI library cannot complete one-sided operations");
    if (!files_note_positions())
      return fail_checkpoint("the MPI library does not tell where a file stands");
    park.sent_reported = true;
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

void check_drained() {
  const Core& core = state();
  const P2pState& p2p = core.p2p;
  FERMATA_CHECK(core.gate.threads == Threads::kOne || core_is_shared(),
                "who saves a rank among threads holds the core lock");
  FERMATA_CHECK(core.safepoint.park.drained_reported, "a rank that is saved has drained");
  FERMATA_CHECK(core.safepoint.park.sent_in_all == sent_in_all(),
                "a rank sends nothing once it has said what it has sent");
  FERMATA_CHECK(all_have_come() && !received_too_much(),
                "a rank that is saved has received exactly what was sent to it");
  FERMATA_CHECK(!has_active(false),
                "of a rank that is saved receives alone are under way in the MPI library");
  FERMATA_CHECK(p2p.unexpected_held + p2p.unexpected_filling + p2p.unexpected_matched == 0,
                "no message is the MPI library's alone where a rank is saved");
  for (const Comm* comm = core.comms.live; comm; comm = comm->next)
    for (const UnexpectedMessage* kept = comm->unexpected_first; kept; kept = kept->next)
      FERMATA_CHECK(kept->state == UnexpectedState::kWhole && kept->counted,
                    "a kept message is whole and counted where a rank is saved");
  FERMATA_CHECK(!owes_collective(), "a rank that is saved owes no collective call");
  check_tables();
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
