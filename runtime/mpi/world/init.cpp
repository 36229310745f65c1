// SPDX-License-Identifier: Apache-2.0
#include "mpi/world/init.h"

#include "base/text.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/comms/comm_members.h"
#include "mpi/comms/comms.h"
#include "mpi/comms/leaving.h"
#include "mpi/gate/clock.h"
#include "mpi/gate/scopes.h"
#include "mpi/gate/threads.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/handles/window.h"
#include "mpi/objects/attributes.h"
#include "mpi/p2p/partitioned.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/rma/near_windows.h"
#include "mpi/rma/windows.h"
#include "mpi/safepoint/lower_start.h"
#include "mpi/safepoint/sections.h"
#include "sys/check.h"

namespace fermata::mpi {
namespace {

Comm* adopt_predefined(u32 canonical, u64 id) {
  CommSlot* const slot = front::predefined<kComm>(canonical);
  Comm* const comm = comm_describe(slot->real(), false);
  if (!comm) fatal("the MPI library does not describe its predefined communicators");
  comm->id = id;
  comm->slot = slot;
  set_predefined(kComm, canonical, comm, clock_new(id));
  comm_link(comm);
  return comm;
}

/// The communicator of our own messages, which no handle of the application names. Collective.
void make_own_comm() {
  RealComm real{};
  if (lower().Comm_dup(slot_at<kComm>(kCommWorld)->real(), &real))
    fatal("the MPI library cannot duplicate MPI_COMM_WORLD");
  Comm* const comm = comm_describe(real, false);
  if (!comm) fatal("the MPI library does not describe a duplicate of MPI_COMM_WORLD");
  comm->id = kOwnId;
  comm->slot = slot_new<kComm>(comm);
  comm->slot->real() = real;
  comm->slot->clock = state().gate.unused_clock;
  comm_link(comm);
  state().p2p.own_comm = comm->slot;
}

/// The slots of the predefined objects that core gives a meaning to.
void fill_predefined() {
  Core& core = state();
  set_predefined(kComm, kCommNull, nullptr, core.gate.unused_clock);
  Request* const none = arena_new<Request>();  // so that idle requests are all told alike
  request_start(none, RequestKind::kSend, RequestState::kInactive);
  set_predefined(kRequest, kRequestNull, none, nullptr);
  core.p2p.completed = request_slot_new();
  Request* const completed = request_of(core.p2p.completed);
  request_start(completed, RequestKind::kCompleted, RequestState::kDone);
  completed->status = empty_status();
  set_predefined(kFile, kFileNull, nullptr, core.gate.unused_clock);
  (void)adopt_predefined(kCommWorld, kWorldId);
  (void)adopt_predefined(kCommSelf, kSelfId + u64(core.world.rank));
  front::for_each_predefined(
      [](Slot* slot, Kind kind, u32 canonical, void*) {
        i64 size = 0;
        if (kind != kDatatype || canonical == kDatatypeNull || !slot->any_real) return;
        if (lower().Type_size_x({slot->any_real}, &size) == kSuccess && size > 0)
          slot->type_size = u64(size);
      },
      nullptr);
}

}  // namespace

int start_mpi(int* argc, char*** argv, int required) {
  Core& core = state();
  LowerScope scope;
  map_tables();
  // The main thread drives the draining: a second one in MPI, if another one initialises it.
  const int least = is_main_thread() ? kThreadSingle : kThreadSerialized;
  int level = kThreadSingle;
  const int error =
      lower().Init_thread(argc, argv, required < least ? least : required, &level);
  if (error) return error;
  // Not more than was asked for, even if the MPI gives more: it would have to be paid for.
  core.world.thread_level = core.world.granted_level = level < required ? level : required;
  const int own = core.world.thread_level < least ? least : core.world.thread_level;
  core.gate.threads = own >= kThreadMultiple     ? Threads::kMultiple
                 : own >= kThreadSerialized ? Threads::kSerialized
                                            : Threads::kOne;
  core.world.init_thread = &front::tls_gate;
  lower_start();
  const RealComm world = slot_at<kComm>(kCommWorld)->real();
  if (lower().Comm_rank(world, &core.world.rank) || lower().Comm_size(world, &core.world.size))
    return kErrIntern;
  sys::checked_rank = u32(core.world.rank);
  if (const int neighbours_error = find_neighbours()) return neighbours_error;
  const u64 counted = u64(core.world.size + kOutsideRoom);
  const u64 counts_bytes = counted * sizeof(u64);
  core.p2p.sent = arena_array<u64>(counted);
  core.p2p.received = arena_array<u64>(counted);
  __builtin_memset(core.p2p.sent, 0, counts_bytes);
  __builtin_memset(core.p2p.received, 0, counts_bytes);
  fill_predefined();
  load_predefined_attributes();
  make_own_comm();
  core.world.initialized = true;
  front::tls_gate.attention = core.gate.threads == Threads::kOne ? 0 : kGateShared;

  Crossing& c = crossing();
  c.mpi_tid = c.main_tid;
  c.world_rank = u32(core.world.rank);
  c.world_size = u32(core.world.size);
  c.sent = core.p2p.sent;
  c.thread_level = own;
  c.two_phase = text_equal(launcher().config("collectives"), "2pc");
  compiler_barrier();
  c.state = RankState::kRunning;
  const u32 payload[2] = {c.world_rank, c.world_size};
  (void)report(Report::kReady, payload, sizeof payload);
  return kSuccess;
}

int end_mpi() {
  Core& core = state();
  LowerScope scope;
  core.world.ending = true;
  count_collective(clock_of(slot_at<kComm>(kCommWorld)));
  crossing().state = RankState::kFinalizing;
  (void)report(Report::kFinalizing, nullptr, 0);
  // The application's to free, and many do not; ours hold more than theirs would.
  each_window([](Window* window) {
    may_fail(window_close(window), "MPI_Finalize ends what is left, and tells what is wrong");
  });
  await_leaving();
  take_last_introductions();
  if (core.lower.door_window) may_leak(lower().Win_free(&core.lower.door_window));
  may_leak(lower().Comm_free(&core.lower.self));
  const int error = lower().Finalize();
  core.world.finalized = true;
  return error;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Query_thread(int* provided) {
  *provided = state().world.thread_level;
  return kSuccess;
}
int Is_thread_main(int* flag) {
  *flag = state().world.init_thread == &front::tls_gate;
  return kSuccess;
}

}  // namespace fermata::mpi::core
