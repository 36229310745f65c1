// SPDX-License-Identifier: Apache-2.0
// The application's callbacks around a checkpoint (fermata_callback).
//
// Those of the main thread run where it may stop of its own accord: waiting in an MPI call or on
// the way out of one, with the core state in order. A rank that has any stops at such places only.
// The others run on a thread made for them, which sleeps until the main one finds that they are
// due. Either kind holds the rank back until its BEFORE has been called for this checkpoint.
//
// Invariant: Round::epoch != 0 exactly from the first BEFORE to the last CONTINUE or RESTART.
#pragma once

#include <pthread.h>
#include <signal.h>

#include "mpi/safepoint/sections.h"

namespace fermata::mpi {

/// Works on a copy: a callback's thread is not the only one to register.
inline void call_all(int where, int when) {
  Callbacks& all = state().callbacks;
  pthread_mutex_lock(&all.mutex);
  const Callbacks copy = all;
  for (u32 i = 0; i < all.count; i++)
    if (all.list[i].where == where) all.list[i].begun = when == FERMATA_BEFORE;
  pthread_mutex_unlock(&all.mutex);
  for (u32 i = 0; i < copy.count; i++) {
    const Callback& one = copy.list[when == FERMATA_BEFORE ? i : copy.count - 1 - i];
    if (one.where == where && (when == FERMATA_BEFORE || one.begun))
      one.function(when, one.argument);
  }
}

/// Calls what is due: the end of the last round if its checkpoint is over, the beginning of the
/// next if `may_begin`. Runs application code.
inline void call_due(int where, bool may_begin) {
  CallbackRound& round = round_of(where);
  const u32 pending = pending_epoch();
  const bool ends = round.epoch != 0 && round.epoch != pending;
  const bool begins = may_begin && pending != 0 && round.count != 0 && (ends || round.epoch == 0);
  if (round.calling || !(ends || begins)) return;
  round.calling = true;
  if (ends) {
    call_all(where, crossing().restarts == round.restarts ? FERMATA_CONTINUE : FERMATA_RESTART);
    round.epoch = 0;
  }
  if (begins) {
    round.restarts = crossing().restarts;
    __atomic_store_n(&round.epoch, pending, __ATOMIC_RELEASE);
    call_all(where, FERMATA_BEFORE);
  }
  __atomic_store_n(&round.calling, false, __ATOMIC_RELEASE);
}

/// A place where the main thread may stop of its own accord, for the length of the scope; callbacks
/// are called as it begins and as it ends. Does nothing in other threads.
/// Preconditions: the gate is open, or this thread's only wrapper is the caller's.
class StoppingPlace {
 public:
  explicit StoppingPlace(bool expects_calls = true) : is_main_(is_main_thread()) {
    if (!is_main_) return;
    if (round_of(FERMATA_ON_MAIN_THREAD).in_use()) call(true);
    state().main_may_stop = true;
    state().main_expects_calls = expects_calls;
  }
  ~StoppingPlace() {
    if (!is_main_) return;
    state().main_may_stop = state().main_expects_calls = false;
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

[[noreturn]] inline void* callback_thread(void*) {
  constexpr u64 kIdleNs = 1'000'000'000, kBusyNs = 5'000'000;
  CallbackRound& round = round_of(FERMATA_ON_OWN_THREAD);
  for (;;) {
    const u32 due = __atomic_load_n(&round.due, __ATOMIC_ACQUIRE);
    const bool begins = due != 0 && due == pending_epoch() && round.epoch != due;
    call_due(FERMATA_ON_OWN_THREAD, begins);
    if (begins) launcher().nudge(crossing().mpi_tid);
    sys::futex_wait(&round.due, due, round.epoch ? kBusyNs : kIdleNs);
  }
}

/// The thread takes none of the application's signals. Returns true if it is there.
inline bool start_callback_thread() {
  Callbacks& callbacks = state().callbacks;
  if (callbacks.has_thread) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  callbacks.has_thread =
      pthread_create(&callbacks.thread, nullptr, callback_thread, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return callbacks.has_thread;
}

inline bool in_callback() {
  const Callbacks& all = state().callbacks;
  return (is_main_thread() && round_of(FERMATA_ON_MAIN_THREAD).calling) ||
         (all.has_thread && pthread_equal(pthread_self(), all.thread));
}

inline bool put_callback(int where, fermata_function function, void* argument) {
  Callbacks& all = state().callbacks;
  if (all.count == Callbacks::kCapacity) return false;
  if (where == FERMATA_ON_OWN_THREAD && !start_callback_thread()) return false;
  all.list[all.count++] = {where, function, argument, false};
  round_of(where).count++;
  return true;
}

inline bool take_callback(int where, fermata_function function, void* argument) {
  Callbacks& all = state().callbacks;
  for (u32 i = all.count; i-- > 0;) {
    const Callback& one = all.list[i];
    if (one.where != where || one.function != function || one.argument != argument) continue;
    for (u32 next = i + 1; next < all.count; next++) all.list[next - 1] = all.list[next];
    all.count--;
    round_of(where).count--;
    return true;
  }
  return false;
}

inline int change_callbacks(bool (*change)(int, fermata_function, void*), int where,
                            fermata_function function, void* argument) {
  const bool known = where == FERMATA_ON_MAIN_THREAD || where == FERMATA_ON_OWN_THREAD;
  if (!known || !function || in_callback()) return FERMATA_MISUSE;
  pthread_mutex_t* const mutex = &state().callbacks.mutex;
  pthread_mutex_lock(mutex);
  const bool changed = change(where, function, argument);
  pthread_mutex_unlock(mutex);
  return changed ? 0 : FERMATA_MISUSE;
}

inline int add_callback(int where, fermata_function function, void* argument) {
  return change_callbacks(put_callback, where, function, argument);
}

inline int remove_callback(int where, fermata_function function, void* argument) {
  return change_callbacks(take_callback, where, function, argument);
}

}  // namespace fermata::mpi
