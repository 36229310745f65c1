// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/stopping.h"

#include "frontend/callbacks.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/gate/threads.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/request.h"
#include "mpi/safepoint/callbacks.h"
#include "mpi/safepoint/wait_edges.h"
#include "mpi/safepoint/obligations.h"
#include "mpi/safepoint/progress.h"
#include "mpi/safepoint/sections.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// Of a rank that may not park: true if it is to wait for nothing but reductions by functions of
/// the application. They end in finite time: all members have begun them, or owe it.
bool only_reduces() {
  return function_is_unexpected() && !in_section() && !awaits_callbacks() &&
         !has_known_obligation();
}

void raise_quiesce() {
  (void)sys::tgkill(sys::getpid(), sys::gettid(), kSignalQuiesce);
}

/// Parks in the middle of a wrapper, at a place where the core state is in order: the gate is
/// opened for the length of the signal and closed again.
/// A thread other than the main one only stops; it makes sure that the main one looks whether the
/// rank may park now.
/// Preconditions: this thread's only wrapper on the stack is the caller's (depth == 1).
void park_here() {
  const CoreUnlocked open;
  if (!is_main_thread()) nudge_main();
  front::tls_gate.depth = 0;
  compiler_barrier();
  raise_quiesce();
  compiler_barrier();
  front::tls_gate.depth = 1;
  compiler_barrier();
  if (FERMATA_UNLIKELY(front::tls_gate.attention & kGateNew)) adopt_thread();  // after a restart
}

/// With an obligation, not where this rank could park: it continues, and says what it waits for.
void run_on_waiting(const Awaited& awaited) {
  if (state().safepoint.park.told) (void)make_progress(TakeIn::kAwaited);
  report_edges(awaited);
  front::tls_gate.interrupted = 1;  // the way out takes it back
}

/// On the way out of MPI with a checkpoint pending: is this a place to stop? If not,
/// Gate::interrupted says that the way out of the next call is to look again.
bool rank_may_park(bool may_call_functions) {
  Gate& gate = front::tls_gate;
  const bool shared = gate.attention & kGateShared;
  gate.depth = gate.depth + 1;
  // This may be no MPI call: the application may hold what a thread with the core lock waits for.
  const bool insists = may_call_functions || !is_main_thread();
  if (shared && insists) lock_core();
  const bool holds_core_lock = !shared || insists || lock_core_soon();
  const bool takes_part = !holds_core_lock || taking_part();
  const bool may = holds_core_lock && takes_part && may_park(may_call_functions);
  if (holds_core_lock && takes_part && !may) report_edges({});
  if (shared && holds_core_lock) unlock_core();
  compiler_barrier();
  gate.depth = gate.depth - 1;
  compiler_barrier();
  if (takes_part && !may) gate.interrupted = 1;
  return may;
}

}  // namespace

Phase current_phase() {
  return Phase(__atomic_load_n(reinterpret_cast<u32*>(&crossing().phase), __ATOMIC_ACQUIRE));
}

bool is_under_way(u32 epoch) {
  return pending_epoch() == epoch && crossing().state == RankState::kRunning &&
         current_phase() != Phase::kRun;
}

bool taking_part() {
  const u32 epoch = pending_epoch();
  const Core& core = state();
  const bool is_mpi_there = core.world.initialized && !core.world.finalized;
  if (epoch == 0 || !is_mpi_there || !is_under_way(epoch)) return false;
  if (core.safepoint.park.epoch != epoch) {
    state().safepoint.park = ParkState{};
    state().safepoint.park.epoch = epoch;
  }
  return true;
}

bool has_known_obligation() { return refresh_targets() != 0 && has_obligation(); }

bool may_park(bool may_call_functions) {
  // The main thread may never come to a place where it could end these.
  if (may_call_functions && !is_main_thread())
    for_each_own_reduction([](RequestSlot* slot) { (void)complete_if_finished(slot); });
  return !held_back() && !has_known_obligation();
}

void safe_point(const Awaited& awaited) {
  if (front::tls_gate.depth != 1 || !taking_part()) return;
  const StoppingPlace place;
  if (may_park()) return park_here();
  if (!only_reduces()) return run_on_waiting(awaited);
  (void)make_progress(TakeIn::kAsked);  // they may need room for others' messages
  front::tls_gate.interrupted = 1;      // the way out looks again
}

void leave_interrupted(bool may_call_functions) {
  if (front::tls_gate.depth != 0) return;  // an inner wrapper: the outermost one will look
  front::tls_gate.interrupted = 0;
  const StoppingPlace place(may_call_functions);
  if (pending_epoch() == 0) return;
  const bool is_main = is_main_thread();
  if (!is_main && state().gate.threads == Threads::kOne) return raise_quiesce();
  if (!rank_may_park(may_call_functions)) return;
  if (!is_main) nudge_main();
  raise_quiesce();
}

/// `clock` has been counted up. Returns when the call it stands for may begin; at once if all
/// members have come (two_phase.cpp).
void enter_collective_pending(ClockEntry* clock, bool all_have_come) {
  Core& core = state();
  if (clock == core.gate.unused_clock) return;
  const u64 since = sys::now_ns();
  while (taking_part()) {
    if (refresh_targets() && clock->seq <= core.safepoint.targets[clock - clocks()]) return;
    clock->seq--;  // as if the call had not been begun: what would this rank do?
    bool runs_on = true;
    if (front::tls_gate.depth == 1 && !all_have_come) {
      const StoppingPlace place;
      const bool parks = may_park();
      if (parks) park_here();
      runs_on = !parks && !only_reduces() && !hesitates(since);
      if (!parks && !runs_on && !make_progress(TakeIn::kAsked)) {
        const CoreUnlocked open;
        (void)sys::call(SYS_sched_yield);
      }
    }
    clock->seq++;
    compiler_barrier();
    if (!runs_on || pending_epoch() != core.safepoint.park.epoch) continue;
    // Some member waits for this rank beyond this call, so the call must be let through: raise its
    // target, for this rank is about to wait for the others in it.
    const Count raised{clock->comm_id, clock->seq};
    (void)report(Report::kRaise, &raised, sizeof raised);
    return;
  }
}

}  // namespace fermata::mpi
