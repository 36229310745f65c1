// SPDX-License-Identifier: Apache-2.0
#include "mpi/gate/threads.h"

#include "frontend/callbacks.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "sys/check.h"

namespace fermata::mpi {
namespace {

[[gnu::noinline, gnu::cold]] void lock_contended_core() {
  constexpr int kSpins = 200;  // most calls are shorter than what it takes to sleep and to wake up
  u32* const lock = &state().gate.lock;
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

/// Somebody waits for the core state that have just been given back.
[[gnu::noinline, gnu::cold]] void wake_core_waiter(bool awaited) {
  Core& core = state();
  if (awaited) (void)sys::call(SYS_futex, sys::arg(&core.gate.lock), FUTEX_WAKE_PRIVATE, 1);
  u32* const wants = &core.gate.main_wants_lock;
  if (*wants && __atomic_exchange_n(wants, 0, __ATOMIC_SEQ_CST))
    nudge_main();
}

}  // namespace

void lock_core() {
  FERMATA_CHECK(front::tls_gate.lock_depth == 0, "who waits for the core lock does not hold it");
  u32 before = 0;
  if (FERMATA_UNLIKELY(!__atomic_compare_exchange_n(&state().gate.lock, &before, 1, false,
                                                    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)))
    lock_contended_core();
  compiler_barrier();
  front::tls_gate.lock_depth = front::tls_gate.depth;
}

void nudge_main() {
  Gate& gate = front::tls_gate;
  gate.depth = gate.depth + 1;
  compiler_barrier();
  launcher().nudge(crossing().mpi_tid);
  compiler_barrier();
  gate.depth = gate.depth - 1;
  compiler_barrier();
}

void unlock_core() {
  Core& core = state();
  const bool awaited = __atomic_exchange_n(&core.gate.lock, 0, __ATOMIC_SEQ_CST) == 2;
  compiler_barrier();
  front::tls_gate.lock_depth = 0;
  if (FERMATA_UNLIKELY(awaited || core.gate.main_wants_lock)) wake_core_waiter(awaited);
}

bool lock_core_soon() {
  constexpr u64 kSpinNs = 5'000'000;
  Core& core = state();
  const u64 until = sys::now_ns() + kSpinNs;
  u32 before = 0;
  if (!__atomic_compare_exchange_n(&core.gate.lock, &before, 1, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    while (__atomic_exchange_n(&core.gate.lock, 2, __ATOMIC_SEQ_CST) != 0) {
      if (core.gate.main_wants_lock) return false;
      if (sys::now_ns() < until) sys::futex_wait(&core.gate.lock, 2, kSpinNs);
      else __atomic_store_n(&core.gate.main_wants_lock, 1, __ATOMIC_SEQ_CST);  // and once more
    }
  }
  core.gate.main_wants_lock = 0;
  compiler_barrier();
  front::tls_gate.lock_depth = front::tls_gate.depth;
  return true;
}

void adopt_thread() {
  const Core& core = state();
  if (launcher().borrow() != 0)
    fatal("the lower half cannot serve another thread of the application");
  // Before MPI_Init nobody knows yet whether threads will be many; then it looks again.
  if (core.world.initialized)
    front::tls_gate.attention = core.gate.threads == Threads::kOne ? 0 : kGateShared;
}

void enter_attention(bool may_call_functions) {
  Gate& gate = front::tls_gate;
  if (FERMATA_UNLIKELY(gate.attention & kGateNew)) adopt_thread();
  if (may_call_functions && (gate.attention & kGateShared) && !gate.lock_depth) lock_core();
}

void leave_attention(bool may_call_functions) {
  const Gate& gate = front::tls_gate;
  if (gate.lock_depth == gate.depth + 1) unlock_core();
  compiler_barrier();
  if (gate.interrupted) leave_interrupted(may_call_functions);
}

u32 unlock_for_blocking_call(bool for_blocking_call) {
  // Below MPI_THREAD_MULTIPLE no other thread of the application may be in MPI, and the lower half
  // has not been asked to bear one.
  if (for_blocking_call && state().gate.threads != Threads::kMultiple) return 0;
  const u32 depth = front::tls_gate.lock_depth;
  unlock_core();
  return depth;
}
void lock_after_blocking_call(u32 depth) {
  lock_core();
  front::tls_gate.lock_depth = depth;
}

}  // namespace fermata::mpi
