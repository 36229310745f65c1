// SPDX-License-Identifier: Apache-2.0
// What the application holds this rank back with: critical sections (fermata_critical_begin) that
// are open, callbacks (callbacks.h) that have not been called for this checkpoint yet, and
// functions of its own that a reduction under way may call. Such a rank does not park, like one
// that owes a collective call.
//
// The main thread parks for the rank, but any thread may open a section, also while the main one
// parks. Each side stores its word and then reads the other's, so one of the two gives way: a
// section that finds the door shut waits outside until the rank runs again.
//
// Invariant: while Core::sections_shut, Core::sections is 0 but for threads about to take it back.
#pragma once

#include "interface/fermata.h"
#include "mpi/p2p/request.h"
#include "mpi/gate/threads.h"

namespace fermata::mpi {

/// Of the checkpoint that this rank takes part in. Returns 0 if the coordinator has been told.
inline int report(Report kind, const void* payload, u64 bytes) {
  const LowerCalls* const calls = crossing().lower;
  return calls->report ? calls->report(kind, state().park.epoch, payload, bytes) : -1;
}

inline u32 pending_epoch() { return __atomic_load_n(&crossing().pending, __ATOMIC_ACQUIRE); }

/// As much of `from` as there is room for, with its end. Does nothing where there is none.
inline void copy_message(const char* from, char* to, u64 bytes) {
  if (!to || bytes == 0) return;
  u64 used = 0;
  for (; from[used] && used + 1 < bytes; used++) to[used] = from[used];
  to[used] = 0;
}

inline CallbackRound& round_of(int where) { return state().callback_rounds[where]; }

/// True if this checkpoint has to wait for callbacks. Wakes the thread that calls them, if need be.
inline bool awaits_callbacks() {
  const CallbackRound& main = round_of(FERMATA_ON_MAIN_THREAD);
  const u32 pending = pending_epoch();
  if (main.count != 0 && (main.epoch != pending || main.calling || !state().main_may_stop))
    return true;
  CallbackRound& own = round_of(FERMATA_ON_OWN_THREAD);
  if (own.count == 0) return false;
  if (__atomic_exchange_n(&own.due, pending, __ATOMIC_ACQ_REL) != pending)
    sys::futex_wake_all(&own.due);
  return __atomic_load_n(&own.calling, __ATOMIC_ACQUIRE) ||
         __atomic_load_n(&own.epoch, __ATOMIC_ACQUIRE) != pending;
}

/// Calls visit(slot) for each reduction under way whose operation is the application's: whoever
/// asks the lower half for anything may call that function.
template <typename Visit>
void for_each_own_reduction(Visit visit) {
  bool used = false;
  for (Slot* const op : state().thunk_ops) used |= op && op_of(op)->users != 0;
  if (FERMATA_LIKELY(!used)) return;
  for_each_live(kRequest, [&](Slot* slot) {
    const Request* const request = request_of(slot);
    if (request->state == RequestState::kActive && reduces_by_function(request)) visit(slot);
  });
}
inline void begin_own_reduction() { state().own_reductions++; }
inline void end_own_reduction() {
  state().own_reductions--;
  if (pending_epoch() != 0) front::tls_gate.interrupted = 1;  // it may have kept the rank
}
inline bool reduces_by_function() {
  bool found = state().own_reductions != 0;
  for_each_own_reduction([&](Slot*) { found = true; });
  return found;
}

/// True if such a function would be called where the application does not expect it: a computation
/// that was interrupted may be in the middle of malloc, say, and hold what the function needs.
inline bool function_is_unexpected() {
  return !state().main_expects_calls && reduces_by_function();
}

inline bool in_section() { return __atomic_load_n(&state().sections, __ATOMIC_SEQ_CST) != 0; }

/// True if the rank must run on for the application's sake. The main thread tells the coordinator
/// once for each attempt, so that a deadline can name it.
inline bool held_back() {
  Core& core = state();
  const bool critical = in_section(), awaits = !critical && awaits_callbacks();
  if (FERMATA_LIKELY(!critical && !awaits && !function_is_unexpected())) return false;
  if (core.park.held_told || !is_main_thread()) return true;
  core.park.held_told = true;
  Message text;
  text << (critical ? "is in a critical section"
           : awaits ? "has not called its callbacks to the end"
                    : "computes while a reduction with a function of its own is under way");
  if (critical && core.section_name[0]) text << " (" << core.section_name << ")";
  (void)report(Report::kHeld, text.data, text.size);
  return true;
}

/// No section begins from now on. False if one is open; then nothing has changed.
inline bool shut_sections() {
  u32* const shut = &state().sections_shut;
  __atomic_store_n(shut, 1, __ATOMIC_SEQ_CST);
  if (!held_back()) return true;
  __atomic_store_n(shut, 0, __ATOMIC_SEQ_CST);
  return false;
}

inline void admit_sections() {
  u32* const shut = &state().sections_shut;
  if (__atomic_exchange_n(shut, 0, __ATOMIC_SEQ_CST)) sys::futex_wake_all(shut);
}

inline int critical_begin(const char* name) {
  constexpr u64 kLookAgainNs = 10'000'000;
  Core& core = state();
  u32 before = __atomic_fetch_add(&core.sections, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&core.sections_shut, __ATOMIC_SEQ_CST)) {
    __atomic_fetch_sub(&core.sections, 1, __ATOMIC_SEQ_CST);
    sys::futex_wait(&core.sections_shut, 1, kLookAgainNs);
    before = __atomic_fetch_add(&core.sections, 1, __ATOMIC_SEQ_CST);
  }
  if (before != 0) return 0;
  copy_message(name ? name : "", core.section_name, sizeof core.section_name);
  return 0;
}

inline int critical_end() {
  u32* const sections = &state().sections;
  u32 before = __atomic_load_n(sections, __ATOMIC_SEQ_CST);
  do {
    if (before == 0) return FERMATA_MISUSE;
  } while (!__atomic_compare_exchange_n(sections, &before, before - 1, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
  if (before != 1 || pending_epoch() == 0) return 0;
  // The rank was asked to stop meanwhile: here it may.
  if (is_main_thread()) {
    leave_interrupted(false);
  } else {
    nudge_main();
    if (front::tls_gate.interrupted) leave_interrupted(false);
  }
  return 0;
}

}  // namespace fermata::mpi
