// SPDX-License-Identifier: Apache-2.0
#include "mpi/user_api/app_request.h"

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/gate/threads.h"
#include "mpi/handles/core_state.h"
#include "mpi/safepoint/callbacks.h"
#include "mpi/safepoint/sections.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// Tells the coordinator. True if it has been told.
bool ask(u32 with_all) {
  const LowerScope scope;
  const u32 payload[2] = {with_all, state().user_api.self_save != nullptr};
  return report(Report::kAsk, payload, sizeof payload) == 0;
}

const char* reason_not_to_ask() {
  const Core& core = state();
  if (!core.world.initialized) return "MPI_Init has not been called yet";
  if (core.world.finalized) return "MPI_Finalize has been called";
  if (in_callback()) return "a callback may not ask for checkpoints";
  if (__atomic_load_n(&core.safepoint.sections, __ATOMIC_SEQ_CST))
    return "this rank is in a critical section";
  return nullptr;
}

/// Writes to disk what this host has written to the directory. Returns 0 or an errno.
i32 flush(const char* directory) {
  const Result<u64> fd = sys::open(directory, sys::kReadOnly | sys::kDirectory | sys::kCloseOnExec);
  if (!fd) return fd.error;
  const Result<u64> flushed = sys::syncfs(int(fd.value));
  (void)sys::close(int(fd.value));
  return flushed.error;
}

/// If the program has been told to save itself for another checkpoint than `*last`, it does.
void save_itself(u32* last) {
  Crossing& shared = crossing();
  const u32 epoch = __atomic_load_n(&shared.save_epoch, __ATOMIC_ACQUIRE);
  if (epoch == *last) return;
  *last = epoch;
  const UserApiState& program = state().user_api;
  shared.saved_code = program.self_save(shared.save_directory, program.self_argument);
  shared.saved_error = shared.saved_code == 0 ? flush(shared.save_directory) : 0;
  __atomic_store_n(&shared.saved_epoch, epoch, __ATOMIC_RELEASE);
}

/// Enough for some hundred kilobytes.
void get_messages_on() {
  constexpr int kPokes = 32;
  const LowerScope scope;
  for (int i = 0; i < kPokes; i++) poke_lower();
  // A reduction of this thread's may be all that keeps the rank from parking.
  if (pending_epoch() != 0 && !is_main_thread()) front::tls_gate.interrupted = 1;
}

/// Asks, and waits for the answer or for a restart. Preconditions: no other thread does.
int ask_and_wait(char* message, u64 bytes) {
  constexpr u64 kLookAgainNs = 1'000'000;
  Crossing& shared = crossing();
  u32 saved = shared.save_epoch;
  for (;;) {
    const u32 restarts = shared.restarts;
    __atomic_store_n(&shared.answered, 0u, __ATOMIC_RELEASE);
    if (!ask(1)) {
      copy_message("the coordinator cannot be reached", message, bytes);
      return FERMATA_FAILED;
    }
    while (!__atomic_load_n(&shared.answered, __ATOMIC_ACQUIRE) && shared.restarts == restarts) {
      sys::futex_wait(&shared.answered, 0, kLookAgainNs);
      save_itself(&saved);
      get_messages_on();
      // A signal stops no rank that has callbacks on its main thread.
      if (round_of(FERMATA_ON_MAIN_THREAD).in_use() && is_main_thread()) leave_interrupted(true);
    }
    if (__atomic_load_n(&shared.answered, __ATOMIC_ACQUIRE)) {
      save_itself(&saved);  // told to, and given up since: the other ranks may need this one in it
      copy_message(shared.answer_text, message, bytes);
      return shared.answer == 0 ? FERMATA_COMMITTED : FERMATA_FAILED;
    }
    if (state().user_api.asked_restart > restarts) {
      copy_message("restarted", message, bytes);
      return FERMATA_RESTARTED;
    }
  }
}

}  // namespace

int checkpoint(char* message, size_t bytes) {
  const char* reason = reason_not_to_ask();
  u32* const asking = &state().user_api.in_request;
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

int set_self_save(fermata_saver function, void* argument) {
  if (__atomic_exchange_n(&state().user_api.in_request, 1, __ATOMIC_ACQUIRE)) return FERMATA_MISUSE;
  state().user_api.self_save = function;
  state().user_api.self_argument = argument;
  __atomic_store_n(&state().user_api.in_request, 0u, __ATOMIC_RELEASE);
  return 0;
}

const char* self_state() {
  const char* const directory = launcher().config("state");
  return directory[0] ? directory : nullptr;
}

int request() {
  if (!state().world.initialized || state().world.finalized || in_callback()) return FERMATA_FAILED;
  return ask(0) ? 0 : FERMATA_FAILED;
}

}  // namespace fermata::mpi
