// SPDX-License-Identifier: Apache-2.0
// The gate between the halves, as wrappers see it.
//
// A quiesce signal may come at any instruction. While a thread is inside MPI it must not be stopped
// there: the lower half is in the middle of something, or our own core state is. So every wrapper
// holds Gate::depth > 0 from its first look at a slot to its last write; the handler then only
// notes the signal in Gate::interrupted, and the way out looks at it.
//
// Signal handler and wrapper run on one thread, so compiler barriers order them; the agent's side
// of the handshake is membarrier(2). The fast path is two plain stores and one predictable test.
//
// Invariant: while depth == 0 every request, counter and recipe agrees with the lower half. Checked
//            where a rank is saved (check_drained): every call would be dear.
#pragma once

#include <stddef.h>

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/threads.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi {

inline void compiler_barrier() { asm volatile("" ::: "memory"); }

/// True if something is left to do on the way out: Gate::interrupted or Gate::attention.
[[gnu::always_inline]] inline bool leaving_needs_attention() {
  u64 both;
  static_assert(offsetof(Gate, attention) == offsetof(Gate, interrupted) + sizeof(u32));
  __builtin_memcpy(&both, &front::tls_gate.interrupted, sizeof both);
  return FERMATA_UNLIKELY(both != 0);
}

/// Holds the gate for one MPI call. The destructor gives it back and, if a quiesce signal came
/// meanwhile, takes part in the checkpoint. `kMayCallFunctions`: where the application has to
/// expect calls of its own functions, of a reduction that is under way, and that others are in
/// them; without it the core lock is not taken.
template <bool kMayCallFunctions>
class ScopeOfCall {
 public:
  [[gnu::always_inline]] ScopeOfCall() {
    front::tls_gate.depth = front::tls_gate.depth + 1;
    compiler_barrier();
    if (FERMATA_UNLIKELY(front::tls_gate.attention != 0)) enter_attention(kMayCallFunctions);
  }
  [[gnu::always_inline]] ~ScopeOfCall() {
    compiler_barrier();
    front::tls_gate.depth = front::tls_gate.depth - 1;
    compiler_barrier();
    if (leaving_needs_attention()) leave_attention(kMayCallFunctions);
  }
  ScopeOfCall(const ScopeOfCall&) = delete;
  ScopeOfCall& operator=(const ScopeOfCall&) = delete;
};
using LowerScope = ScopeOfCall<true>;

/// True if other threads may be inside MPI and this one has the core lock.
[[gnu::always_inline]] inline bool core_is_shared() {
  return FERMATA_UNLIKELY(front::tls_gate.lock_depth != 0);
}

/// Opens the core lock, if this thread holds it, until the end of the scope (threads.h).
class CoreUnlocked {
 public:
  [[gnu::always_inline]] CoreUnlocked() : CoreUnlocked(false) {}
  [[gnu::always_inline]] ~CoreUnlocked() {
    if (FERMATA_UNLIKELY(depth_ != 0)) lock_after_blocking_call(depth_);
  }
  CoreUnlocked(const CoreUnlocked&) = delete;
  CoreUnlocked& operator=(const CoreUnlocked&) = delete;

 protected:
  [[gnu::always_inline]] explicit CoreUnlocked(bool for_blocking_call) {
    if (core_is_shared()) depth_ = unlock_for_blocking_call(for_blocking_call);
  }

 private:
  u32 depth_ = 0;
};

/// Around a call of the lower half that may wait for what another thread of this rank has to do.
class BlockingCall : CoreUnlocked {
 public:
  [[gnu::always_inline]] BlockingCall() : CoreUnlocked(true) {}
};

/// The same around a blocking reduction, whose operation may be the application's.
class ReducingCall {
 public:
  [[gnu::always_inline]] explicit ReducingCall(const OpSlot* op) : told_(op) {}

 private:
  struct Told {
    [[gnu::always_inline]] explicit Told(const OpSlot* op)
        : of_function(core_is_shared() && op->object) {
      if (FERMATA_UNLIKELY(of_function)) begin_own_reduction();
    }
    [[gnu::always_inline]] ~Told() {
      if (FERMATA_UNLIKELY(of_function)) end_own_reduction();
    }
    const bool of_function;
  };
  const Told told_;  // with the core lock, before they are opened and when they are closed again
  const BlockingCall open_;
};

/// The clock of a communicator, or of that of a window or file.
inline ClockEntry* clock_of(Slot* slot) { return slot->clock; }

/// Counts one collective call on a clock before it is begun; with a checkpoint pending, decides
/// whether this rank may begin it now. Preconditions: the gate is held.
inline void count_collective(ClockEntry* clock, bool all_have_come = false) {
  clock->seq++;
  compiler_barrier();
  if (FERMATA_UNLIKELY(crossing().pending != 0)) enter_collective_pending(clock, all_have_come);
}

/// A LowerScope around one collective call on a communicator, a window or a file.
class CollectiveScope {
 public:
  /// `waits`: a member may have to wait in it for the others.
  explicit CollectiveScope(Slot* over, bool waits = true) {
    bool all_have_come = false;
    if (FERMATA_UNLIKELY(crossing().two_phase != 0) && waits)
      all_have_come = wait_for_all_members(over);
    count_collective(clock_of(over), all_have_come);
  }
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  LowerScope gate_;  // taken before the body of the constructor, given back after the call
};

}  // namespace fermata::mpi
