// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/park.h"

#include "base/text.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/gate/scopes.h"
#include "mpi/gate/threads.h"
#include "mpi/handles/core_state.h"
#include "mpi/p2p/unexpected.h"
#include "mpi/safepoint/drain.h"
#include "mpi/safepoint/wait_edges.h"
#include "mpi/safepoint/obligations.h"
#include "mpi/safepoint/progress.h"
#include "mpi/safepoint/rebuild.h"
#include "mpi/safepoint/sections.h"
#include "mpi/safepoint/stopping.h"
#include "sys/check.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

constexpr u64 kShortestWaitNs = 20'000, kLongestWaitNs = 1'000'000;

/// What the image says of the checkpoint it was cut in: there will be another one, perhaps of the
/// same number.
void note_restart() {
  Crossing& shared = crossing();
  if (shared.asked_epoch == state().safepoint.park.epoch)
    state().user_api.asked_restart = shared.restarts;
  shared.asked_epoch = 0;
  state().safepoint.park = ParkState{};
}

/// Waits for the agent's next word, or for so long. Before the rank drains others may have the
/// core lock meanwhile. False: this thread has not got it back.
bool wait_for_agent(u32 wake, u64 wait_ns) {
  const bool opens = core_is_shared() && current_phase() == Phase::kGather;
  const u32 depth = opens ? unlock_for_blocking_call(false) : 0;
  sys::futex_wait(&crossing().wake, wake, wait_ns);
  if (!opens) return true;
  if (!lock_core_soon()) return false;
  front::tls_gate.lock_depth = depth;
  return true;
}

// Of one follow_protocol().
struct Attempt {
  bool told_failed = false;   // the coordinator knows that it fails
  bool stops_others = false;  // the other threads of this rank have been told to stop
};

// What a step of the protocol has come to.
enum class Next : u8 {
  kWait,       // for the agent's next word
  kLookAgain,  // at once: what the step went by has changed meanwhile
  kRunOn,      // the application is needed, or has just come back from the image
  kOver,       // no checkpoint is under way any more
};

/// True if this rank cannot gather for the application's sake.
bool application_is_needed(const Attempt& attempt) {
  // Once it has said that it is parked its sections are shut; others may look at the door.
  if (state().safepoint.park.parked_version == 0 && held_back()) return true;
  // A thread that is stopped somewhere may hold what the function of a reduction needs.
  return attempt.stops_others ? has_own_reduction() : function_is_unexpected();
}

/// Says once that the checkpoint fails; too late for a rank that has told that it has drained.
void tell_failure(Attempt& attempt) {
  const ParkState& park = state().safepoint.park;
  if (!park.failed || park.drained_reported || attempt.told_failed) return;
  (void)report(Report::kFailed, park.why_failed, text_length(park.why_failed));
  attempt.told_failed = true;
}

/// Stops where it is if the newest targets allow it, and says so.
Next gather(Attempt& attempt) {
  const Core& core = state();
  ParkState& park = state().safepoint.park;
  const u64 version = refresh_targets();
  if (version == 0 || version == park.parked_version) return Next::kWait;
  if (has_obligation()) return Next::kRunOn;
  const bool others_resume = core.gate.threads != Threads::kOne && !attempt.stops_others;
  if (others_resume && has_own_reduction()) return Next::kWait;  // it ends meanwhile
  if (!shut_sections()) return Next::kRunOn;
  if (!unexpected_fill_matched()) return Next::kWait;  // tell_failure() says why
  if (core.gate.threads != Threads::kOne) {
    attempt.stops_others = true;
    // What is still under way in other threads ends in finite time: it polls, or all members have
    // begun it.
    if (launcher().stop_others() != 0) return Next::kWait;
  }
  if (refresh_targets() != version || has_obligation()) return Next::kLookAgain;
  if (attempt.stops_others && has_own_reduction()) return Next::kLookAgain;
  park.parked_version = version;
  forget_edges();
  report_parked(version);
  return Next::kWait;
}

/// The safe state. Its second return, from the image, is where a restarted rank begins.
Next hold_still(void* frame) {
  ParkState& park = state().safepoint.park;
  if (park.held) return Next::kWait;
  park.held = true;
  check_drained();
  state().world.wtime_saved = lower().Wtime() + state().world.wtime_offset;
  if (launcher().hold(frame) == kHoldRestarted) {
    note_restart();
    rebuild();
    return Next::kRunOn;
  }
  return Next::kWait;
}

/// Does what the phase asks of this rank.
Next take_part(Phase phase, Attempt& attempt, void* frame) {
  switch (phase) {
    case Phase::kRun: return Next::kOver;
    case Phase::kGather: return gather(attempt);
    case Phase::kDrain:
      if (!state().safepoint.park.failed) drain_step();
      return Next::kWait;
    case Phase::kSave: return hold_still(frame);
  }
  return Next::kWait;
}

/// Takes part in one checkpoint until it is over (false) or this rank must run on (true). After a
/// restart it must, even if the next one has begun: leave() is to bring timers and pending signals
/// back, and its other threads wait for that.
/// Preconditions: taking_part().
bool follow_protocol(void* frame) {
  const u32 epoch = state().safepoint.park.epoch;
  u64 wait_ns = kShortestWaitNs;
  Attempt attempt;
  while (is_under_way(epoch)) {
    const u32 wake = __atomic_load_n(&crossing().wake, __ATOMIC_ACQUIRE);
    const Phase phase = current_phase();
    if (phase == Phase::kGather && application_is_needed(attempt)) return true;
    const bool drains = phase == Phase::kDrain && knows_expected();
    const bool moved = make_progress(drains ? TakeIn::kAll : TakeIn::kAsked);
    tell_failure(attempt);
    const Next next = take_part(phase, attempt, frame);
    if (next == Next::kLookAgain) continue;
    if (next != Next::kWait) return next == Next::kRunOn;
    if (moved) {
      wait_ns = kShortestWaitNs;
      continue;
    }
    if (!wait_for_agent(wake, wait_ns)) return true;
    wait_ns = wait_ns * 2 < kLongestWaitNs ? wait_ns * 2 : kLongestWaitNs;
  }
  return false;
}

}  // namespace

void park(void* frame) {
  Gate& gate = front::tls_gate;
  FERMATA_CHECK(gate.depth == 0 && gate.lock_depth == 0, "a thread parks outside its MPI calls");
  gate.depth = gate.depth + 1;
  compiler_barrier();
  // A thread that has called no MPI function yet: another one has had the library loaded.
  if (FERMATA_UNLIKELY(gate.attention & kGateNew)) adopt_thread();
  const bool shared = state().gate.threads != Threads::kOne;
  bool holds_core_lock = !shared || lock_core_soon();
  bool run_on = !holds_core_lock;
  gate.interrupted = 0;
  while (!run_on && taking_part()) {
    run_on = follow_protocol(frame);
    holds_core_lock = !shared || core_is_shared();
    if (holds_core_lock) leave_drain();
    if (shared) launcher().release_others();
  }
  admit_sections();
  if (shared) {
    if (holds_core_lock) unlock_core();
    launcher().release_others();
  }
  if (run_on) gate.interrupted = 1;  // the way out of every call looks again until it may park
  // Signals may come now, and their handlers take their time.
  state().safepoint.main_may_stop = state().safepoint.main_expects_calls = false;
  launcher().leave(frame);
  compiler_barrier();
  gate.depth = gate.depth - 1;
  compiler_barrier();
}

}  // namespace fermata::mpi
