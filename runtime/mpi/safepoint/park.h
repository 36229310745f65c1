// SPDX-License-Identifier: Apache-2.0
// The rank's side of a checkpoint: when it may stop, what it does while it is stopped.
//
// The agent writes what is wanted into Crossing; the MPI thread reads it here. A rank that may stop
// raises the quiesce signal on itself, so that a stopped context is always a signal frame, whether
// it was found computing, on its way out of a wrapper, waiting for a message or at the door of a
// collective call. park() then runs inside the handler until the checkpoint is over, or until this
// rank turns out to have a duty (clock.h) and must run on. One that must and waits says for whom
// (needs.h).
//
// Until every rank has said how many messages it has sent, and so has announced its synchronous
// ones (receipts.h), a parked rank takes in no more than others have asked room for: who takes in
// everything would end synchronous sends. It sleeps on Crossing::wake between polls: 20 us when
// something moved, up to 1 ms when nothing does.
//
// Invariant: park() is entered with Gate::depth == 0 and the core state in order; while it runs,
//            depth is above 0 and the rank's application code stands still.
// Invariant: every loop here ends when the agent stores Phase::kRun; the agent has the deadlines.
#pragma once

#include "mpi/io/file_access.h"
#include "mpi/safepoint/callbacks.h"
#include "mpi/p2p/generalized.h"
#include "mpi/safepoint/needs.h"
#include "mpi/p2p/receipts.h"

namespace fermata::mpi {

void rebuild();  // rebuild.h

inline constexpr u64 kShortestWaitNs = 20'000, kLongestWaitNs = 1'000'000;
inline constexpr u64 kLeavingNs = 2'000'000'000;

inline Phase current_phase() {
  return Phase(__atomic_load_n(reinterpret_cast<u32*>(&crossing().phase), __ATOMIC_ACQUIRE));
}

/// True while this checkpoint is under way, and no later one.
inline bool is_under_way(u32 epoch) {
  return pending_epoch() == epoch && crossing().state == RankState::kRunning &&
         current_phase() != Phase::kRun;
}

/// True while a checkpoint is under way that this rank can take part in.
inline bool taking_part() {
  const u32 epoch = pending_epoch();
  const Core& core = state();
  if (epoch == 0 || !core.initialized || core.finalized || !is_under_way(epoch)) return false;
  if (core.park.epoch != epoch) {
    state().park = ParkState{};
    state().park.epoch = epoch;
  }
  return true;
}

inline bool has_known_duty() { return refresh_targets() != 0 && has_duty(); }

/// Preconditions: taking_part(), in an MPI call. True before the targets are known: they are waited
/// for in park().
inline bool may_park(bool may_call_functions = true) {
  // The main thread may never come to a place where it could end these.
  if (may_call_functions && !is_main_thread())
    for_each_own_reduction([](Slot* slot) { (void)settle_if_finished(slot); });
  return !held_back() && !has_known_duty();
}

/// Of a rank that may not park: true if it is to wait for nothing but reductions by functions of
/// the application. They end in finite time: all members have begun them, or owe it.
inline bool only_reduces() {
  return function_is_unexpected() && !in_section() && !awaits_callbacks() && !has_known_duty();
}

inline void raise_quiesce() {
  (void)sys::tgkill(sys::getpid(), sys::gettid(), kSignalQuiesce);
}

/// Parks in the middle of a wrapper, at a place where the core state is in order: the gate is
/// opened for the length of the signal and closed again.
/// A thread other than the main one only stops; it makes sure that the main one looks whether the
/// rank may park now.
/// Preconditions: this thread's only wrapper on the stack is the caller's (depth == 1).
inline void park_here() {
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

// Which messages a rank looks at that its program has not asked for. It receives those that others
// have asked room for; it holds (unexpected.h) those of whom it has told that it waits for, or all
// that it knows to have been sent.
enum class TakeIn : u8 { kAsked, kAwaited, kAll };
bool make_progress(TakeIn which);

/// With a duty, and not where this rank could park: it continues, and says what it waits for.
inline void run_on_waiting(const Awaited& awaited) {
  if (state().park.told) (void)make_progress(TakeIn::kAwaited);
  tell_needs(awaited);
  front::tls_gate.interrupted = 1;  // the way out takes it back
}

[[gnu::noinline]] inline void safe_point(const Awaited& awaited) {
  if (front::tls_gate.depth != 1 || !taking_part()) return;
  const StoppingPlace place;
  if (may_park()) return park_here();
  if (!only_reduces()) return run_on_waiting(awaited);
  (void)make_progress(TakeIn::kAsked);  // they may need room for others' messages
  front::tls_gate.interrupted = 1;      // the way out looks again
}

/// On the way out of MPI with a checkpoint pending: is this a place to stop? If not,
/// Gate::interrupted says that the way out of the next call is to look again.
inline bool rank_may_park(bool may_call_functions) {
  Gate& gate = front::tls_gate;
  const bool shared = gate.attention & kGateShared;
  gate.depth = gate.depth + 1;
  // This may be no MPI call: the application may hold what a thread with the core lock waits for.
  const bool insists = may_call_functions || !is_main_thread();
  if (shared && insists) lock_core();
  const bool holds_core_lock = !shared || insists || lock_core_soon();
  const bool takes_part = !holds_core_lock || taking_part();
  const bool may = holds_core_lock && takes_part && may_park(may_call_functions);
  if (holds_core_lock && takes_part && !may) tell_needs({});
  if (shared && holds_core_lock) unlock_core();
  compiler_barrier();
  gate.depth = gate.depth - 1;
  compiler_barrier();
  if (takes_part && !may) gate.interrupted = 1;
  return may;
}

[[gnu::noinline]] inline void leave_interrupted(bool may_call_functions) {
  if (front::tls_gate.depth != 0) return;  // an inner wrapper: the outermost one will look
  front::tls_gate.interrupted = 0;
  const StoppingPlace place(may_call_functions);
  if (pending_epoch() == 0) return;
  const bool is_main = is_main_thread();
  if (!is_main && state().threads == Threads::kOne) return raise_quiesce();
  if (!rank_may_park(may_call_functions)) return;
  if (!is_main) nudge_main();
  raise_quiesce();
}

/// `clock` has been counted up. Returns when the call it stands for may begin; at once if all
/// members have come (two_phase.h).
[[gnu::noinline]] inline void enter_collective_pending(ClockEntry* clock, bool all_have_come) {
  Core& core = state();
  if (clock == core.unused_clock) return;
  const u64 since = sys::now_ns();
  while (taking_part()) {
    if (refresh_targets() && clock->seq <= core.targets[clock - clocks()]) return;
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
    if (!runs_on || pending_epoch() != core.park.epoch) continue;
    // Some member waits for this rank beyond this call, so the call must be let through: raise its
    // target, for this rank is about to wait for the others in it.
    const Count raised{clock->comm_id, clock->seq};
    (void)report(Report::kRaise, &raised, sizeof raised);
    return;
  }
}

// --- while parked ------------------------------------------------------------------------------

/// Whether this rank takes in a message of `rank` now.
inline bool takes_from(i32 rank, TakeIn which) {
  const Core& core = state();
  if (rank >= core.world_size) return which == TakeIn::kAll;
  if (which == TakeIn::kAll) return core.received[rank] < core.expected[rank];
  if (which == TakeIn::kAsked)
    return core.to_take && core.park.applied_version != 0 &&
           core.received[rank] < core.to_take[rank] + held_from(rank);
  for (const ThreadWait* wait = core.waits; wait; wait = wait->next)
    if (wait->epoch == core.park.epoch && wait->wanted.senders[rank]) return true;
  return false;
}

/// Takes in one message that has arrived; those that are held came first. False if there is none.
inline bool take_one(Comm* comm, i32 source, TakeIn which) {
  if (which != TakeIn::kAsked) return bell_keep(comm, source) || unexpected_hold_one(comm, source);
  if (state().park.failed) return false;
  if (bell_keep(comm, source)) return true;
  if (unexpected_take_held(comm, source)) return true;
  return held_from(comm->members[source]) == 0 && unexpected_take_one(comm, source);
}

/// Takes in what has arrived on one communicator. True if anything has.
inline bool take_in(Comm* comm, TakeIn which) {
  bool moved = false;
  for (i32 peer = 0; peer < peers_of(comm); peer++)
    while (takes_from(comm->members[peer], which) && take_one(comm, peer, which)) moved = true;
  return moved;
}

/// Lets the lower half get on with its own work, as it does in every call.
inline void poke_lower() {
  int flag;
  CanonStatus status;
  (void)lower().Iprobe(kAnySource, kAnyTag, slot_at(kComm, kCommWorld)->real, &flag, &status);
}

/// Moves everything that may move: finishes requests, takes in what arrives. True if anything did.
/// A synchronous send to anybody is left alone: until it has been announced, the program alone sees
/// its end.
inline bool make_progress(TakeIn which) {
  bool moved = poll_synchronous();
  for_each_live(kRequest, [&](Slot* slot) {
    const Request* const request = request_of(slot);
    const bool announced = request->mode == SendMode::kSynchronous && request->receiver >= 0;
    if (request->state == RequestState::kActive && !announced) moved |= settle_if_finished(slot);
  });
  for (Comm* comm = state().comms; comm; comm = comm->next) {
    for (auto* kept = comm->unexpected_first; kept && state().unexpected_filling; kept = kept->next)
      if (kept->state == UnexpectedState::kFilling) moved |= unexpected_arrived(kept);
    if (!comm->ending) moved |= take_in(comm, which);
  }
  if (state().unexpected_filling) moved |= unexpected_matched_arrived();
  poke_lower();
  return moved;
}

/// True while a request is active whose end the image must not miss: sends always, and collective
/// calls (which every member has begun by now).
inline bool has_active(bool collectives_only) {
  bool found = false;
  for_each_live(kRequest, [&](Slot* slot) {
    const Request* const request = request_of(slot);
    if (request->state != RequestState::kActive || is_receive(request)) return;
    if (!collectives_only || is_collective(request)) found = true;
  });
  return found || (!collectives_only && synchronous_is_unfinished());
}

inline void report_parked(u64 version) {
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

inline void report_sent() {
  const Core& core = state();
  Count* const payload = arena_array<Count>(u64(core.world_size));
  u64 n = 0;
  for (i32 rank = 0; rank < core.world_size; rank++)
    if (core.sent[rank]) payload[n++] = Count{u64(rank), core.sent[rank]};
  (void)report(Report::kSent, payload, n * sizeof(Count));
  arena_free(payload);
}

/// True if this rank knows how many messages it is to receive: all have announced theirs.
inline bool knows_expected() {
  Core& core = state();
  if (__atomic_load_n(&crossing().expected_version, __ATOMIC_ACQUIRE) != core.park.epoch)
    return false;
  if (core.park.expected_copied) return true;
  if (!core.expected) core.expected = arena_array<u64>(u64(core.world_size));
  for (i32 rank = 0; rank < core.world_size; rank++) core.expected[rank] = 0;
  for (u64 i = 0; i < crossing().expected_count; i++) {
    const Count& expected = mailbox().expected[i];
    if (expected.key < u64(core.world_size)) core.expected[expected.key] = expected.value;
  }
  core.park.expected_copied = true;
  return true;
}

/// True if all messages that were sent to this rank are here, though some may only be held.
/// Preconditions: knows_expected().
inline bool all_have_come() {
  const Core& core = state();
  for (i32 rank = 0; rank < core.world_size; rank++)
    if (core.received[rank] < core.expected[rank]) return false;
  return true;
}

/// A message came that its sender will send again after a restart: some rank continued too kept.
/// Preconditions: knows_expected().
inline bool received_too_much() {
  const Core& core = state();
  for (i32 rank = 0; rank < core.world_size; rank++)
    if (core.received[rank] > core.expected[rank]) return true;
  return false;
}

/// Receives all that is held. True if all is whole.
inline bool received_everything() {
  for (const Comm* comm = state().comms; comm && state().unexpected_held; comm = comm->next)
    unexpected_take_all_held(comm);
  return state().unexpected_held == 0 && state().unexpected_filling == 0;
}

/// On a communicator that has been freed no request can be begun or made again after a restart.
/// `still`: what may come to its end meanwhile is none.
inline const char* reason_not_to_save(bool still) {
  if (crossing().connections) return kConnected;  // since the agent looked
  const char* reason = reason_not_to_save_files();
  for_each_live(kRequest, [&](Slot* slot) {
    const Request* const request = request_of(slot);
    if (!needs_comm(request) || !comm_of(request->comm) || !comm_of(request->comm)->dead) return;
    if (still || has_persistent_real(request))
      reason = "a request is kept on a communicator that has been freed";
  });
  return reason;
}

inline void drain_step() {
  ParkState& park = state().park;
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
  const u64 payload[2] = {state().unexpected_messages, state().unexpected_bytes};
  (void)report(Report::kDrained, payload, sizeof payload);
}

/// What has been announced is answered also if the checkpoint has been given up meanwhile, or its
/// sender would wait for ever. What has to come for that is on its way.
inline void leave_drain() {
  const ParkState& park = state().park;
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

/// What the image says of the checkpoint it was cut in: there will be another one, perhaps of the
/// same number.
inline void note_restart() {
  Crossing& shared = crossing();
  if (shared.asked_epoch == state().park.epoch) state().asked_restart = shared.restarts;
  shared.asked_epoch = 0;
  state().park = ParkState{};
}

/// Waits for the agent's next word, or for so long. Before the rank drains others may have the
/// core lock meanwhile. False: this thread has not got it back.
inline bool wait_for_agent(u32 wake, u64 wait_ns) {
  const bool opens = core_is_shared() && current_phase() == Phase::kGather;
  const u32 depth = opens ? unlock_for_blocking_call(false) : 0;
  sys::futex_wait(&crossing().wake, wake, wait_ns);
  if (!opens) return true;
  if (!lock_core_soon()) return false;
  front::tls_gate.lock_depth = depth;
  return true;
}

/// Takes part in one checkpoint until it is over (false) or this rank must run on (true). After a
/// restart it must, even if the next one has begun: leave() is to bring timers and pending signals
/// back, and its other threads wait for that.
/// Preconditions: taking_part().
inline bool follow_protocol(void* frame) {
  const Core& core = state();
  ParkState& park = state().park;
  const u32 epoch = park.epoch;
  u64 wait_ns = kShortestWaitNs;
  bool told_failed = false, stops_others = false;
  while (is_under_way(epoch)) {
    const u32 wake = __atomic_load_n(&crossing().wake, __ATOMIC_ACQUIRE);
    const Phase phase = current_phase();
    if (phase == Phase::kGather) {
      // Once it has said that it is parked its sections are shut; others may look at the door.
      if (park.parked_version == 0 && held_back()) return true;
      // A thread that is stopped somewhere may hold what the function of a reduction needs.
      if (stops_others ? reduces_by_function() : function_is_unexpected()) return true;
    }
    const bool drains = phase == Phase::kDrain && knows_expected();
    const bool moved = make_progress(drains ? TakeIn::kAll : TakeIn::kAsked);
    if (park.failed && !park.drained_reported && !told_failed) {
      (void)report(Report::kFailed, park.why_failed, text_length(park.why_failed));
      told_failed = true;
    }
    switch (phase) {
      case Phase::kRun: return false;
      case Phase::kGather:
        if (const u64 version = refresh_targets(); version && version != park.parked_version) {
          if (has_duty()) return true;
          const bool others_resume = core.threads != Threads::kOne && !stops_others;
          if (others_resume && reduces_by_function()) break;  // it ends meanwhile
          if (!shut_sections()) return true;
          if (!unexpected_fill_matched()) {
            fail_checkpoint("a message of 2 GiB or more is matched (MPI_Mprobe) and not received");
            break;
          }
          if (core.threads != Threads::kOne) {
            stops_others = true;
            // What is still under way in other threads ends in finite time: it polls, or all
            // members have begun it.
            if (launcher().stop_others() != 0) break;
          }
          if (refresh_targets() != version || has_duty()) continue;
          if (stops_others && reduces_by_function()) continue;
          park.parked_version = version;
          forget_needs();
          report_parked(version);
        }
        break;
      case Phase::kDrain:
        if (!park.failed) drain_step();
        break;
      case Phase::kSave:
        if (park.held) break;
        park.held = true;
        state().wtime_saved = lower().Wtime() + state().wtime_offset;
        if (launcher().hold(frame) == kHoldRestarted) {
          note_restart();
          rebuild();
          return true;
        }
        break;
    }
    if (moved) {
      wait_ns = kShortestWaitNs;
      continue;
    }
    if (!wait_for_agent(wake, wait_ns)) return true;
    wait_ns = wait_ns * 2 < kLongestWaitNs ? wait_ns * 2 : kLongestWaitNs;
  }
  return false;
}

/// UpperCalls::park. Runs on the MPI thread inside the quiesce handler.
inline void park(void* frame) {
  Gate& gate = front::tls_gate;
  gate.depth = gate.depth + 1;
  compiler_barrier();
  // A thread that has called no MPI function yet: another one has had the library loaded.
  if (FERMATA_UNLIKELY(gate.attention & kGateNew)) adopt_thread();
  const bool shared = state().threads != Threads::kOne;
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
  state().main_may_stop = state().main_expects_calls = false;
  launcher().leave(frame);
  compiler_barrier();
  gate.depth = gate.depth - 1;
  compiler_barrier();
}

}  // namespace fermata::mpi
