// SPDX-License-Identifier: Apache-2.0
// The gate between the halves, as wrappers see it.
//
// A quiesce signal may come at any instruction. While a thread is inside MPI it must not be stopped
// there: the lower half is in the middle of something, or our own books are. So every wrapper holds
// Gate::depth > 0 from its first look at a slot to its last write; the handler then only notes the
// signal in Gate::interrupted, and the way out looks at it.
//
// Signal handler and wrapper run on one thread, so compiler barriers order them; the agent's side
// of the handshake is membarrier(2). The fast path is two plain stores and one predictable test.
//
// Invariant: while depth == 0 every request, counter and recipe agrees with the lower half.
#pragma once

#include <stddef.h>

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/slots.h"

namespace fermata::mpi {

inline void compiler_barrier() { asm volatile("" ::: "memory"); }

// Out of line on purpose; both are defined in park.h.
[[gnu::cold]] void leave_interrupted(bool may_call_functions);
[[gnu::cold]] void enter_collective_pending(ClockEntry* clock, bool all_have_come);
[[gnu::cold]] bool wait_for_all_members(Slot* comm);  // two_phase.h
// Likewise, in threads.h; with several threads they are in the path of every call.
void enter_attention(bool may_call_functions);
void leave_attention(bool may_call_functions);
u32 open_books(bool for_blocking_call);
void close_books(u32 depth);
[[gnu::cold]] void begin_own_reduction();  // sections.h
[[gnu::cold]] void end_own_reduction();    // sections.h

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
/// them; without it the lock of the books is not taken.
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

/// True if other threads may be inside MPI and this one has the lock of the books.
[[gnu::always_inline]] inline bool books_are_shared() {
  return FERMATA_UNLIKELY(front::tls_gate.lock_depth != 0);
}

/// Opens the lock of the books, if this thread holds it, until the end of the scope (threads.h).
class OpenBooks {
 public:
  [[gnu::always_inline]] OpenBooks() : OpenBooks(false) {}
  [[gnu::always_inline]] ~OpenBooks() {
    if (FERMATA_UNLIKELY(depth_ != 0)) close_books(depth_);
  }
  OpenBooks(const OpenBooks&) = delete;
  OpenBooks& operator=(const OpenBooks&) = delete;

 protected:
  [[gnu::always_inline]] explicit OpenBooks(bool for_blocking_call) {
    if (books_are_shared()) depth_ = open_books(for_blocking_call);
  }

 private:
  u32 depth_ = 0;
};

/// Around a call of the lower half that may wait for what another thread of this rank has to do.
class BlockingCall : OpenBooks {
 public:
  [[gnu::always_inline]] BlockingCall() : OpenBooks(true) {}
};

/// The same around a blocking reduction, whose operation may be the application's.
class ReducingCall {
 public:
  [[gnu::always_inline]] explicit ReducingCall(const Slot* op) : told_(op) {}

 private:
  struct Told {
    [[gnu::always_inline]] explicit Told(const Slot* op)
        : of_function(books_are_shared() && op->object) {
      if (FERMATA_UNLIKELY(of_function)) begin_own_reduction();
    }
    [[gnu::always_inline]] ~Told() {
      if (FERMATA_UNLIKELY(of_function)) end_own_reduction();
    }
    const bool of_function;
  };
  const Told told_;  // with the books, before they are opened and when they are closed again
  const BlockingCall open_;
};

/// Where the clock of a communicator is: Slot::spare of a communicator's slot is its address.
inline ClockEntry* clock_of(Slot* comm) { return reinterpret_cast<ClockEntry*>(comm->spare); }

/// Counts one collective call on a clock before it is begun; with a checkpoint pending, decides
/// whether this rank may begin it now. Preconditions: the gate is held.
inline void count_collective(ClockEntry* clock, bool all_have_come = false) {
  clock->seq++;
  compiler_barrier();
  if (FERMATA_UNLIKELY(crossing().pending != 0)) enter_collective_pending(clock, all_have_come);
}

/// A LowerScope around one collective call on `comm`.
class CollectiveScope {
 public:
  /// `waits`: a member may have to wait in it for the others.
  explicit CollectiveScope(Slot* comm, bool waits = true) {
    bool all_have_come = false;
    if (FERMATA_UNLIKELY(crossing().two_phase != 0) && waits)
      all_have_come = wait_for_all_members(comm);
    count_collective(clock_of(comm), all_have_come);
  }
  CollectiveScope(const CollectiveScope&) = delete;
  CollectiveScope& operator=(const CollectiveScope&) = delete;

 private:
  LowerScope gate_;  // taken before the body of the constructor, given back after the call
};

}  // namespace fermata::mpi
