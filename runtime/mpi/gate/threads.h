// SPDX-License-Identifier: Apache-2.0
// Several threads of the application inside MPI (MPI_THREAD_SERIALIZED and MPI_THREAD_MULTIPLE).
//
// One lock guards the core state: slots, requests, counters, recipes, the arena. A wrapper takes it
// with the gate and holds it to the end, also across calls into the lower half, but for calls that
// may wait for something another thread must do: under MPI_THREAD_MULTIPLE the lock is open for the
// length of a blocking send or collective call, and at any level between two polls. So what may
// change between two polls is what a checkpoint may change there, and nothing else.
//
// A function of the application's operations is called by the lower half, hence with the lock
// taken, and may wait for another thread. So the main thread, where it was interrupted, does not
// insist on the lock (lock_core_soon).
//
// The main thread alone parks (park.h). It drives the draining, so it stops all other threads
// before it says that the rank is parked; they stop outside MPI, or between two polls.
//
// With one thread all this is a word in the gate that is zero.
//
// Invariant: Gate::lock_depth != 0 exactly in the thread that holds the lock (checked where it is
//            taken; where it is given back a handler of a signal that calls MPI, which MPI
//            forbids, may have been in between); a quiesce signal does not stop that thread
//            (checked in park()).
#pragma once

#include "halves/crossing.h"
#include "mpi/handles/core_state.h"
#include "sys/sys.h"

namespace fermata::mpi {

inline bool is_main_thread() { return sys::gettid() == crossing().main_tid; }

/// Somebody sleeps until the core state are given back.
inline bool core_is_awaited() {
  return __atomic_load_n(&state().gate.lock, __ATOMIC_RELAXED) == 2;
}

void lock_core();

/// Has the main thread look whether the rank may park. Meanwhile the gate keeps this thread from
/// being stopped in the launcher, if a handler of the application's interrupts it there: the
/// launcher's code may lie elsewhere after a restart. Whoever calls this looks at
/// Gate::interrupted, or raises the quiesce signal.
[[gnu::cold]] void nudge_main();

void unlock_core();

/// lock_core() for the main thread where it was interrupted. It gives up after a few milliseconds
/// (false), for whoever has the core state may be in a function of the application's that waits for
/// what the main thread holds; it is nudged when they are given back.
bool lock_core_soon();

/// The first call of this thread in this process: gives it a thread block of the lower half.
[[gnu::cold]] void adopt_thread();

void enter_attention(bool may_call_functions);
void leave_attention(bool may_call_functions);
u32 unlock_for_blocking_call(bool for_blocking_call);
void lock_after_blocking_call(u32 depth);

}  // namespace fermata::mpi
