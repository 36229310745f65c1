// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/sections.h"

#include "base/text.h"
#include "interface/fermata.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/threads.h"
#include "sys/sys.h"

namespace fermata::mpi {

int report(Report kind, const void* payload, u64 bytes) {
  const LowerCalls* const calls = crossing().lower;
  return calls->report ? calls->report(kind, state().safepoint.park.epoch, payload, bytes) : -1;
}

u32 pending_epoch() { return __atomic_load_n(&crossing().pending, __ATOMIC_ACQUIRE); }

void copy_message(const char* from, char* to, u64 bytes) {
  if (!to || bytes == 0) return;
  u64 used = 0;
  for (; from[used] && used + 1 < bytes; used++) to[used] = from[used];
  to[used] = 0;
}

CallbackRound& round_of(int where) { return state().safepoint.callback_rounds[where]; }

bool awaits_callbacks() {
  const CallbackRound& main = round_of(FERMATA_ON_MAIN_THREAD);
  const u32 pending = pending_epoch();
  if (main.count != 0 &&
      (main.epoch != pending || main.calling || !state().safepoint.main_may_stop))
    return true;
  CallbackRound& own = round_of(FERMATA_ON_OWN_THREAD);
  if (own.count == 0) return false;
  if (__atomic_exchange_n(&own.due, pending, __ATOMIC_ACQ_REL) != pending)
    sys::futex_wake_all(&own.due);
  return __atomic_load_n(&own.calling, __ATOMIC_ACQUIRE) ||
         __atomic_load_n(&own.epoch, __ATOMIC_ACQUIRE) != pending;
}

void begin_own_reduction() { state().safepoint.own_reductions++; }
void end_own_reduction() {
  state().safepoint.own_reductions--;
  if (pending_epoch() != 0) front::tls_gate.interrupted = 1;  // it may have kept the rank
}
bool has_own_reduction() {
  bool found = state().safepoint.own_reductions != 0;
  for_each_own_reduction([&](RequestSlot*) { found = true; });
  return found;
}

bool function_is_unexpected() {
  return !state().safepoint.main_expects_calls && has_own_reduction();
}

bool in_section() { return __atomic_load_n(&state().safepoint.sections, __ATOMIC_SEQ_CST) != 0; }

bool held_back() {
  Core& core = state();
  const bool critical = in_section(), awaits = !critical && awaits_callbacks();
  if (FERMATA_LIKELY(!critical && !awaits && !function_is_unexpected())) return false;
  if (core.safepoint.park.held_told || !is_main_thread()) return true;
  core.safepoint.park.held_told = true;
  Message text;
  text << (critical ? "is in a critical section"
           : awaits ? "has not called its callbacks to the end"
                    : "computes while a reduction with a function of its own is under way");
  const char* const name = core.safepoint.section_name;
  if (critical && name[0]) text << " (" << name << ")";
  (void)report(Report::kHeld, text.data, text.size);
  return true;
}

bool shut_sections() {
  u32* const shut = &state().safepoint.sections_shut;
  __atomic_store_n(shut, 1, __ATOMIC_SEQ_CST);
  if (!held_back()) return true;
  __atomic_store_n(shut, 0, __ATOMIC_SEQ_CST);
  return false;
}

void admit_sections() {
  u32* const shut = &state().safepoint.sections_shut;
  if (__atomic_exchange_n(shut, 0, __ATOMIC_SEQ_CST)) sys::futex_wake_all(shut);
}

int critical_begin(const char* name) {
  constexpr u64 kLookAgainNs = 10'000'000;
  Core& core = state();
  u32 before = __atomic_fetch_add(&core.safepoint.sections, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&core.safepoint.sections_shut, __ATOMIC_SEQ_CST)) {
    __atomic_fetch_sub(&core.safepoint.sections, 1, __ATOMIC_SEQ_CST);
    sys::futex_wait(&core.safepoint.sections_shut, 1, kLookAgainNs);
    before = __atomic_fetch_add(&core.safepoint.sections, 1, __ATOMIC_SEQ_CST);
  }
  if (before != 0) return 0;
  copy_message(name ? name : "", core.safepoint.section_name, sizeof core.safepoint.section_name);
  return 0;
}

int critical_end() {
  u32* const sections = &state().safepoint.sections;
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
