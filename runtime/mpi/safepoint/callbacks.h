// SPDX-License-Identifier: Apache-2.0
// The application's callbacks around a checkpoint (fermata_callback).
//
// Those of the main thread run where it may stop of its own accord: waiting in an MPI call or on
// the way out of one, with the core state in order. A rank that has any stops at such places only.
// The others run on a thread made for them, which sleeps until the main one finds that they are
// due. Either kind holds the rank back until its BEFORE has been called for this checkpoint.
//
// Invariant: Round::epoch != 0 exactly from the first BEFORE to the last CONTINUE or RESTART. Not
//            checked: call_due alone sets it.
#pragma once

#include "frontend/callbacks.h"
#include "interface/fermata.h"
#include "mpi/gate/scopes.h"
#include "mpi/gate/threads.h"
#include "mpi/handles/callback_list.h"
#include "mpi/handles/core_state.h"
#include "mpi/safepoint/sections.h"

namespace fermata::mpi {

/// Calls what is due: the end of the last round if its checkpoint is over, the beginning of the
/// next if `may_begin`. Runs application code.
void call_due(int where, bool may_begin);

/// A place where the main thread may stop of its own accord, for the length of the scope; callbacks
/// are called as it begins and as it ends. Does nothing in other threads.
/// Preconditions: the gate is open, or this thread's only wrapper is the caller's.
class StoppingPlace {
 public:
  explicit StoppingPlace(bool expects_calls = true) : is_main_(is_main_thread()) {
    if (!is_main_) return;
    if (round_of(FERMATA_ON_MAIN_THREAD).in_use()) call(true);
    state().safepoint.main_may_stop = true;
    state().safepoint.main_expects_calls = expects_calls;
  }
  ~StoppingPlace() {
    if (!is_main_) return;
    state().safepoint.main_may_stop = state().safepoint.main_expects_calls = false;
    const CallbackRound& round = round_of(FERMATA_ON_MAIN_THREAD);
    if (!round.in_use()) return;
    call(false);
    if (round.epoch != 0) front::tls_gate.interrupted = 1;  // the next way out looks again
  }
  StoppingPlace(const StoppingPlace&) = delete;
  StoppingPlace& operator=(const StoppingPlace&) = delete;

 private:
  static void call(bool may_begin) {
    const CoreUnlocked open;
    const u32 depth = front::tls_gate.depth;
    front::tls_gate.depth = 0;
    compiler_barrier();
    call_due(FERMATA_ON_MAIN_THREAD, may_begin);
    compiler_barrier();
    front::tls_gate.depth = depth;
  }
  const bool is_main_;
};

bool in_callback();
int add_callback(int where, fermata_function function, void* argument);
int remove_callback(int where, fermata_function function, void* argument);

}  // namespace fermata::mpi
