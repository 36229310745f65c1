// SPDX-License-Identifier: Apache-2.0
// The application asks for a checkpoint (fermata_checkpoint, fermata_request).
//
// fermata_checkpoint waits outside MPI, gate open, so that the rank parks there like anywhere else.
// The coordinator begins when all ranks have asked, and its answer comes by the agent. A process
// that wakes in here after a restart finds out whether this was the checkpoint it was saved by: the
// agent notes the epoch that all have asked for, and the image has the one it was cut in.
#pragma once

#include "mpi/park.h"

namespace fermata::mpi {

/// Tells the coordinator. True if it has been told.
inline bool ask(u32 with_all) {
  const LowerScope scope;
  const LowerCalls* const calls = crossing().lower;
  return calls->report && calls->report(Report::kAsk, &with_all, sizeof with_all) == 0;
}

inline const char* reason_not_to_ask() {
  const Core& core = state();
  if (!core.initialized) return "MPI_Init has not been called yet";
  if (core.finalized) return "MPI_Finalize has been called";
  if (in_callback()) return "a callback may not ask for checkpoints";
  if (__atomic_load_n(&core.sections, __ATOMIC_SEQ_CST))
    return "this rank is in a critical section";
  return nullptr;
}

/// Asks, and waits for the answer or for a restart. Preconditions: no other thread does.
inline int ask_and_wait(char* message, u64 bytes) {
  constexpr u64 kLookAgainNs = 10'000'000;
  Crossing& shared = crossing();
  for (;;) {
    const u32 restarts = shared.restarts;
    __atomic_store_n(&shared.answered, 0u, __ATOMIC_RELEASE);
    if (!ask(1)) {
      copy_message("the coordinator cannot be reached", message, bytes);
      return FERMATA_FAILED;
    }
    while (!__atomic_load_n(&shared.answered, __ATOMIC_ACQUIRE) && shared.restarts == restarts) {
      sys::futex_wait(&shared.answered, 0, kLookAgainNs);
      // A signal stops no rank that has callbacks on its main thread.
      if (round_of(FERMATA_ON_MAIN_THREAD).in_use() && is_main_thread()) leave_interrupted();
    }
    if (__atomic_load_n(&shared.answered, __ATOMIC_ACQUIRE)) {
      copy_message(shared.answer_text, message, bytes);
      return shared.answer == 0 ? FERMATA_COMMITTED : FERMATA_FAILED;
    }
    if (shared.asked_epoch == state().restored_epoch) {
      copy_message("restarted", message, bytes);
      return FERMATA_RESTARTED;
    }
  }
}

inline int checkpoint(char* message, size_t bytes) {
  const char* reason = reason_not_to_ask();
  u32* const asking = &state().asking;
  if (!reason && __atomic_exchange_n(asking, 1, __ATOMIC_ACQUIRE))
    reason = "another thread of this rank is asking for a checkpoint";
  if (reason) {
    copy_message(reason, message, bytes);
    return FERMATA_FAILED;
  }
  const int result = ask_and_wait(message, bytes);
  __atomic_store_n(asking, 0u, __ATOMIC_RELEASE);
  return result;
}

inline int request() {
  if (!state().initialized || state().finalized || in_callback()) return FERMATA_FAILED;
  return ask(0) ? 0 : FERMATA_FAILED;
}

}  // namespace fermata::mpi
