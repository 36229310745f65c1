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
// Invariant: Gate::lock_depth != 0 exactly in the thread that holds the lock; a quiesce signal does
//            not stop that thread.
#pragma once

#include "mpi/objects.h"

namespace fermata::mpi {

inline bool is_main_thread() { return sys::gettid() == crossing().main_tid; }

/// Somebody sleeps until the core state are given back.
inline bool core_is_awaited() {
  return __atomic_load_n(&state().core_lock, __ATOMIC_RELAXED) == 2;
}

[[gnu::noinline, gnu::cold]] inline void lock_contended_core() {
  constexpr int kSpins = 200;  // most calls are shorter than what it takes to sleep and to wake up
  u32* const lock = &state().core_lock;
  for (int spin = 0; spin < kSpins; spin++) {
    u32 before = 0;
    if (__atomic_load_n(lock, __ATOMIC_RELAXED) == 0 &&
        __atomic_compare_exchange_n(lock, &before, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      return;
    __builtin_ia32_pause();
  }
  while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE) != 0)
    sys::futex_wait(lock, 2, 1'000'000'000);
}

inline void lock_core() {
  u32 before = 0;
  if (FERMATA_UNLIKELY(!__atomic_compare_exchange_n(&state().core_lock, &before, 1, false,
                                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
    lock_contended_core();
  compiler_barrier();
  front::tls_gate.lock_depth = front::tls_gate.depth;
}

/// Has the main thread look whether the rank may park. Meanwhile the gate keeps this thread from
/// being stopped in the launcher, if a handler of the application's interrupts it there: the
/// launcher's code may lie elsewhere after a restart. Whoever calls this looks at
/// Gate::interrupted, or raises the quiesce signal.
[[gnu::noinline, gnu::cold]] inline void nudge_main() {
  Gate& gate = front::tls_gate;
  gate.depth = gate.depth + 1;
  compiler_barrier();
  launcher().nudge(crossing().mpi_tid);
  compiler_barrier();
  gate.depth = gate.depth - 1;
  compiler_barrier();
}

/// Somebody waits for the core state that have just been given back.
[[gnu::noinline, gnu::cold]] inline void wake_core_waiter(bool awaited) {
  Core& core = state();
  if (awaited) (void)sys::call(SYS_futex, sys::arg(&core.core_lock), FUTEX_WAKE_PRIVATE, 1);
  if (core.main_wants_core && __atomic_exchange_n(&core.main_wants_core, 0, __ATOMIC_SEQ_CST))
    nudge_main();
}

inline void unlock_core() {
  Core& core = state();
  const bool awaited = __atomic_exchange_n(&core.core_lock, 0, __ATOMIC_SEQ_CST) == 2;
  compiler_barrier();
  front::tls_gate.lock_depth = 0;
  if (FERMATA_UNLIKELY(awaited || core.main_wants_core)) wake_core_waiter(awaited);
}

/// lock_core() for the main thread where it was interrupted. It gives up after a few milliseconds
/// (false), for whoever has the core state may be in a function of the application's that waits for
/// what the main thread holds; it is nudged when they are given back.
[[gnu::noinline]] inline bool lock_core_soon() {
  constexpr u64 kSpinNs = 5'000'000;
  Core& core = state();
  const u64 until = sys::now_ns() + kSpinNs;
  u32 before = 0;
  if (!__atomic_compare_exchange_n(&core.core_lock, &before, 1, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    while (__atomic_exchange_n(&core.core_lock, 2, __ATOMIC_SEQ_CST) != 0) {
      if (core.main_wants_core) return false;
      if (sys::now_ns() < until) sys::futex_wait(&core.core_lock, 2, kSpinNs);
      else __atomic_store_n(&core.main_wants_core, 1, __ATOMIC_SEQ_CST);  // and once more
    }
  }
  core.main_wants_core = 0;
  compiler_barrier();
  front::tls_gate.lock_depth = front::tls_gate.depth;
  return true;
}

/// The first call of this thread in this process: gives it a thread block of the lower half.
[[gnu::noinline, gnu::cold]] inline void adopt_thread() {
  const Core& core = state();
  if (launcher().borrow() != 0)
    fatal("the lower half cannot serve another thread of the application");
  // Before MPI_Init nobody knows yet whether threads will be many; then it looks again.
  if (core.initialized) front::tls_gate.attention = core.threads == Threads::kOne ? 0 : kGateShared;
}

[[gnu::noinline]] inline void enter_attention(bool may_call_functions) {
  Gate& gate = front::tls_gate;
  if (FERMATA_UNLIKELY(gate.attention & kGateNew)) adopt_thread();
  if (may_call_functions && (gate.attention & kGateShared) && !gate.lock_depth) lock_core();
}

[[gnu::noinline]] inline void leave_attention(bool may_call_functions) {
  const Gate& gate = front::tls_gate;
  if (gate.lock_depth == gate.depth + 1) unlock_core();
  compiler_barrier();
  if (gate.interrupted) leave_interrupted(may_call_functions);
}

[[gnu::noinline]] inline u32 unlock_for_blocking_call(bool for_blocking_call) {
  // Below MPI_THREAD_MULTIPLE no other thread of the application may be in MPI, and the lower half
  // has not been asked to bear one.
  if (for_blocking_call && state().threads != Threads::kMultiple) return 0;
  const u32 depth = front::tls_gate.lock_depth;
  unlock_core();
  return depth;
}
[[gnu::noinline]] inline void lock_after_blocking_call(u32 depth) {
  lock_core();
  front::tls_gate.lock_depth = depth;
}

}  // namespace fermata::mpi
