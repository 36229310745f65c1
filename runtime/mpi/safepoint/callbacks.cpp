// SPDX-License-Identifier: Apache-2.0
#include "mpi/safepoint/callbacks.h"

#include <pthread.h>
#include <signal.h>

#include "halves/crossing.h"
#include "sys/sys.h"

namespace fermata::mpi {
namespace {

/// Works on a copy: a callback's thread is not the only one to register.
void call_all(int where, int when) {
  Callbacks& all = state().safepoint.callbacks;
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

[[noreturn]] void* callback_thread(void*) {
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
bool start_callback_thread() {
  Callbacks& callbacks = state().safepoint.callbacks;
  if (callbacks.has_thread) return true;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  callbacks.has_thread =
      pthread_create(&callbacks.thread, nullptr, callback_thread, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return callbacks.has_thread;
}

bool put_callback(int where, fermata_function function, void* argument) {
  Callbacks& all = state().safepoint.callbacks;
  if (all.count == Callbacks::kCapacity) return false;
  if (where == FERMATA_ON_OWN_THREAD && !start_callback_thread()) return false;
  all.list[all.count++] = {where, function, argument, false};
  round_of(where).count++;
  return true;
}

bool take_callback(int where, fermata_function function, void* argument) {
  Callbacks& all = state().safepoint.callbacks;
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

int change_callbacks(bool (*change)(int, fermata_function, void*), int where,
                     fermata_function function, void* argument) {
  const bool known = where == FERMATA_ON_MAIN_THREAD || where == FERMATA_ON_OWN_THREAD;
  if (!known || !function || in_callback()) return FERMATA_MISUSE;
  pthread_mutex_t* const mutex = &state().safepoint.callbacks.mutex;
  pthread_mutex_lock(mutex);
  const bool changed = change(where, function, argument);
  pthread_mutex_unlock(mutex);
  return changed ? 0 : FERMATA_MISUSE;
}

}  // namespace

void call_due(int where, bool may_begin) {
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

bool in_callback() {
  const Callbacks& all = state().safepoint.callbacks;
  return (is_main_thread() && round_of(FERMATA_ON_MAIN_THREAD).calling) ||
         (all.has_thread && pthread_equal(pthread_self(), all.thread));
}

int add_callback(int where, fermata_function function, void* argument) {
  return change_callbacks(put_callback, where, function, argument);
}

int remove_callback(int where, fermata_function function, void* argument) {
  return change_callbacks(take_callback, where, function, argument);
}

}  // namespace fermata::mpi
