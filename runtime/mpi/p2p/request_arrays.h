// SPDX-License-Identifier: Apache-2.0
// Waiting for several requests at once, and testing them. See request.h.
//
// The application's array is read and written in place. What is in progress is shown to the lower
// half in batches of a fixed size, so a call of any length needs no memory but its frame. What the
// lower half has finished and this call does not hand out waits in the core state (kDone), where
// the next call finds it without asking again: a request costs the same among many as among few.
//
// Invariant: the lower half is shown an array of real handles of its own; the application's array
//            changes only where a request is released. Not checked: hot path.
#pragma once

#include "base/backoff.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/gate/hooks.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/request.h"
#include "mpi/p2p/request_batch.h"
#include "mpi/p2p/unexpected.h"

namespace fermata::mpi {

using front::RequestList;
using front::StatusList;

// What has become of a request of an array that is waited for.
enum class Standing : u8 { kIdle, kActive, kPending, kFinished };

/// Of a file's request in progress. It is asked for by itself: for MPICH it is a generalized
/// request with a function that polls, which its MPI_Testall calls also of one that has finished.
[[gnu::cold]] Standing standing_in_file(RequestSlot* slot);

inline Standing standing_of(RequestSlot* slot) {
  if (is_idle(slot)) return Standing::kIdle;  // first: of long arrays most entries are null
  const Request* const request = request_of(slot);
  if (FERMATA_LIKELY(request->state == RequestState::kActive)) {
    if (FERMATA_UNLIKELY(is_of_file(request))) return standing_in_file(slot);
    return Standing::kActive;
  }
  if (FERMATA_UNLIKELY(request->state == RequestState::kPending) && is_still_pending(slot))
    return Standing::kPending;
  return Standing::kFinished;
}

/// The handle of entry i becomes null, or inactive.
[[gnu::always_inline]] inline void release_handle(RequestList list, i32 i, RequestSlot* slot) {
  release_handle(&slot);
  list.put(i, slot);
}

/// Takes over the outcome of entry i, which the lower half has just finished. `status`: what it
/// said; null: the core state does not need it. Returns `error`.
[[gnu::always_inline]] inline int release_entry(RequestList list, i32 i, RequestSlot* slot,
                                                const CanonStatus* status, int error) {
  Request* const request = request_of(slot);
  if (status) complete(request, *status, error);
  else complete_unseen(request);
  if (FERMATA_UNLIKELY(error != kSuccess)) note_culprit(request);
  release_handle(list, i, slot);
  return error;
}

/// Likewise of what has finished in the core state: tell(status, error) hands its status on.
template <typename Tell>
[[gnu::always_inline]] inline int release_recorded_by(RequestList list, i32 i, RequestSlot* slot,
                                                      Tell tell) {
  Request* const request = request_of(slot);
  const int error = last_outcome_of(request);  // sets the status of a generalized request
  tell(request->status, error);
  if (FERMATA_UNLIKELY(error != kSuccess)) note_culprit(request);
  release_handle(list, i, slot);
  return error;
}
/// Its status becomes entry `place` of `statuses`.
[[gnu::always_inline]] inline int release_recorded(RequestList list, i32 i, RequestSlot* slot,
                                                   StatusList statuses, i32 place) {
  return release_recorded_by(list, i, slot, [&](const CanonStatus& status, int error) {
    if (statuses.is_wanted()) statuses.put(place, status, error);
  });
}

/// Records the k-th of a batch, which the lower half has finished, for whoever asks for it.
inline void record(Batch& batch, i32 k, const CanonStatus& status, int error, RequestList list) {
  RequestSlot* const slot = list.get(batch.at(k));
  slot->real() = batch.real(k);
  record_finished(slot, status, error);
}

using LowerPollAll = int (*)(int, RealRequest*, int*, CanonStatus*);

/// Asks the lower half for all of a batch, by Testall or wait_all; a single one by Test or wait.
/// `statuses`: the batch's, or null. Returns kErrInStatus where some have failed.
[[gnu::always_inline]] inline int ask_all(Batch& batch, bool waits, int* done,
                                          CanonStatus* statuses) {
  LowerPoll MpiCalls::*const one = waits ? &MpiCalls::wait : &MpiCalls::Test;
  LowerPollAll MpiCalls::*const all = waits ? &MpiCalls::wait_all : &MpiCalls::Testall;
  if (batch.count() != 1) return (lower().*all)(batch.count(), batch.reals(), done, statuses);
  if (statuses) statuses->source = kAnySource;
  if (statuses) statuses->internal[2] = 0;
  const int error = (lower().*one)(batch.reals(), done, statuses);
  if (FERMATA_LIKELY(error == kSuccess)) return kSuccess;
  if (statuses) statuses->error = error;
  return kErrInStatus;
}

/// Concludes the k-th of a batch after ask_all() has returned `error`, kSuccess or kErrInStatus.
[[gnu::always_inline]] inline int release_polled(Batch& batch, i32 k, RequestList list,
                                                 StatusList statuses, bool has_statuses,
                                                 int error) {
  const i32 i = batch.at(k);
  RequestSlot* const slot = list.get(i);
  CanonStatus* const status = has_statuses ? batch.status(k) : nullptr;
  if (FERMATA_UNLIKELY(error != kSuccess)) {
    if (status) error = status->error;
    else if (batch.real(k) == slot->real()) error = kErrPending;  // the handle was left alone
    else note_culprit(request_of(slot));  // or another one of them
    slot->real() = batch.real(k);
  }
  if (statuses.is_wanted()) statuses.put(i, *status, error);
  if (FERMATA_LIKELY(error != kErrPending)) (void)release_entry(list, i, slot, status, error);
  return error;
}

/// Sorts entry i of an array all of which are waited for: it is released, or joins the batch.
[[gnu::always_inline]] inline int collect(Batch& batch, RequestList list, i32 i,
                                          StatusList statuses, bool* pending) {
  RequestSlot* const slot = list.get(i);
  switch (standing_of(slot)) {
    case Standing::kActive: batch.add(i, slot); return kSuccess;
    case Standing::kIdle:
      if (statuses.is_wanted()) statuses.put(i, empty_status(), kSuccess);
      return kSuccess;
    case Standing::kPending:
      batch.add(i, slot);
      *pending = true;
      return kSuccess;
    case Standing::kFinished: break;
  }
  return release_recorded(list, i, slot, statuses, i) ? kErrInStatus : kSuccess;
}

/// What a checkpoint or the application's other threads may have changed: sorts a batch anew.
inline int collect_again(Batch& batch, RequestList list, StatusList statuses, bool* pending) {
  int result = kSuccess;
  const i32 before = batch.count();
  batch.clear();
  *pending = false;
  for (i32 k = 0; k < before; k++)  // writes at or before what it reads
    if (collect(batch, list, batch.at(k), statuses, pending)) result = kErrInStatus;
  return result;
}

/// Waits for all requests of a batch and releases them. `pending`: some wait for the application.
/// Here, where each front end has its own lists inline: a tenth fewer instructions per request.
[[gnu::noinline]] inline int finish_batch(Batch& batch, RequestList list, StatusList statuses,
                                          bool pending) {
  int result = kSuccess;
  for (Backoff backoff; batch.count() != 0;) {
    int done = 0, error = kSuccess;
    const bool has_statuses =
        statuses.is_wanted() || batch.wants_statuses() || core_is_shared();  // as poll_request_by
    CanonStatus* const room = has_statuses ? batch.statuses() : nullptr;
    if (FERMATA_UNLIKELY(pending)) poke_lower();  // the others are to get on all the same
    else error = ask_all(batch, !core_is_shared(), &done, room);
    if (FERMATA_UNLIKELY(error != kSuccess && error != kErrInStatus)) return error;
    if (FERMATA_LIKELY(done || error != kSuccess)) {
      for (i32 k = 0; k < batch.count(); k++)
        if (release_polled(batch, k, list, statuses, has_statuses, error)) result = kErrInStatus;
      batch.clear();
      return result;
    }
    safe_point({.count = batch.count(), .list = &list, .at = batch.places()});
    between_polls(backoff);  // opens the core lock: another thread may end some of the batch
    if (collect_again(batch, list, statuses, &pending)) result = kErrInStatus;
  }
  return result;
}

/// Some request has failed, and this call is to return: what else has finished is released.
[[gnu::cold]] void finish_rest(i32 from, i32 count, RequestList list, StatusList statuses);

}  // namespace fermata::mpi

namespace fermata::mpi::core {

// In most exchanges one request is left, because small sends have finished when they have begun.
inline int Waitall(int count, RequestList list, StatusList statuses) {
  LowerScope scope;
  Batch batch;
  bool pending = false;
  int result = kSuccess;
  for (i32 i = 0; i < count; i++) {
    if (FERMATA_UNLIKELY(collect(batch, list, i, statuses, &pending))) result = kErrInStatus;
    if (FERMATA_LIKELY(!batch.is_full()) && i + 1 != count) continue;
    if (FERMATA_LIKELY(batch.count() == 1 && !statuses.is_wanted())) {
      RequestSlot* slot = list.get(batch.at(0));
      if (wait_request(&slot, nullptr)) result = kErrInStatus;
      list.put(batch.at(0), slot);
      batch.clear();
    } else if (batch.count() != 0) {
      const int error = finish_batch(batch, list, statuses, pending);
      if (FERMATA_UNLIKELY(error != kSuccess && error != kErrInStatus)) return error;
      if (error) result = kErrInStatus;
    }
    pending = false;
    if (FERMATA_LIKELY(result == kSuccess)) continue;
    finish_rest(i + 1, count, list, statuses);
    return result;
  }
  return result;
}

}  // namespace fermata::mpi::core

namespace fermata::mpi {

/// Asks for all of a batch, and records it (`records`) or leaves it for release_polled(). Returns
/// kSuccess, kErrInStatus, or what is wrong with the call. *done: all have finished.
[[gnu::noinline]] inline int test_batch(Batch& batch, RequestList list, bool records, int* done,
                                       CanonStatus* statuses) {
  *done = 0;
  const int error = ask_all(batch, false, done, statuses);
  if (FERMATA_UNLIKELY(error != kSuccess && error != kErrInStatus)) return error;
  if (!records || (!*done && error == kSuccess)) return error;
  for (i32 k = 0; k < batch.count(); k++) {
    const int own = error ? batch.status(k)->error : int(kSuccess);
    if (own != kErrPending) record(batch, k, *batch.status(k), own, list);
  }
  batch.clear();
  return error;
}

/// Everything has finished, or something has failed: hands out all that has. `batch`: what the
/// lower half has just been asked for, with this outcome.
inline int release_all(i32 count, RequestList list, StatusList statuses, Batch& batch,
                       bool has_statuses, int error) {
  int result = error;
  for (i32 i = 0, k = 0; i < count; i++) {
    if (k < batch.count() && batch.at(k) == i) {
      if (release_polled(batch, k++, list, statuses, has_statuses, error)) result = kErrInStatus;
      continue;
    }
    RequestSlot* const slot = list.get(i);
    const Standing standing = standing_of(slot);
    if (FERMATA_LIKELY(standing == Standing::kFinished)) {
      if (release_recorded(list, i, slot, statuses, i)) result = kErrInStatus;
    } else if (statuses.is_wanted()) {
      statuses.put(i, empty_status(), standing == Standing::kIdle ? kSuccess : kErrPending);
    }
  }
  return result;
}

/// Asks for the first of a batch alone, and records it if it has finished. One that has not is
/// answer enough: of long arrays nothing else is looked at then.
inline int test_first(Batch& batch, RequestList list, int* done) {
  CanonStatus* const status = batch.status(0);
  *status = empty_status();
  *done = 0;
  const int error = lower().Test(batch.reals(), done, status);
  if (!*done && error == kSuccess) return kSuccess;
  record(batch, 0, *status, error, list);
  batch.drop_first();
  if (FERMATA_LIKELY(error == kSuccess)) return kSuccess;
  batch.clear();  // nobody has asked for the others
  return kErrInStatus;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Testall(int count, RequestList list, int* flag, StatusList statuses) {
  constexpr i32 kMany = 8;
  LowerScope scope;
  Batch batch;
  int error = kSuccess, all = 1;
  bool asked = false;
  for (i32 i = 0; i < count && all && !error; i++) {
    RequestSlot* const slot = list.get(i);
    const Standing standing = standing_of(slot);
    if (FERMATA_UNLIKELY(standing == Standing::kPending)) {
      poke_lower();  // the others are to get on all the same
      all = 0;
    } else if (standing == Standing::kActive) {
      if (FERMATA_UNLIKELY(batch.is_full()))
        error = test_batch(batch, list, true, &all, batch.statuses());
      if (all && !error) batch.add(i, slot);
      if (FERMATA_LIKELY(batch.count() != kMany) || asked) continue;
      asked = true;
      error = test_first(batch, list, &all);
    }
  }
  *flag = all;
  const bool has_statuses = statuses.is_wanted() || batch.wants_statuses();
  if (*flag && !error && batch.count() != 0)
    error = test_batch(batch, list, false, flag, has_statuses ? batch.statuses() : nullptr);
  if (FERMATA_UNLIKELY(error != kSuccess && error != kErrInStatus)) return error;
  if (*flag || error) return release_all(count, list, statuses, batch, has_statuses, error);
  note_polled(list, count);
  return kSuccess;
}

}  // namespace fermata::mpi::core

namespace fermata::mpi {

// What one look at an array that is not waited for as a whole has shown.
struct Look {
  i32 found = 0;         // requests that have been released
  bool pending = false;  // some wait for the application
  bool active = false;   // the lower half has been asked for some
  int error = kSuccess;  // kErrInStatus, or what is wrong with the call
};

using LowerPollSome = int (*)(int, RealRequest*, int*, int*, CanonStatus*);

/// Asks the lower half which of a batch have finished, or, if it `waits`, until one has or a
/// checkpoint is pending. Calls take(k, status, error) for each.
template <typename Take>
[[gnu::always_inline]] inline void ask_some(Batch& batch, bool waits, Look& look, Take take) {
  int done[Batch::kRoom], found = 0;
  LowerPollSome MpiCalls::*const poll = waits ? &MpiCalls::wait_some : &MpiCalls::Testsome;
  const int error =
      (lower().*poll)(batch.count(), batch.reals(), &found, done, batch.statuses());
  look.active = true;
  if (FERMATA_UNLIKELY(error != kSuccess && error != kErrInStatus)) look.error = error;
  for (int n = 0; n < found; n++) {
    const CanonStatus& status = *batch.status(n);
    take(done[n], status, error == kErrInStatus ? status.error : int(kSuccess));
  }
  batch.clear();
}

/// Looks for one request of an array that has finished, the first in the core state or else in the
/// lower half; what else that has finished is booked. *index: which one.
inline Look look_for_one(RequestList list, i32 count, bool waits, i32* index,
                         CanonStatus* status) {
  Look look;
  Batch batch;
  i32 first = count;
  const auto note = [&](i32 k, const CanonStatus& got, int error) {
    if (batch.at(k) < first) first = batch.at(k);
    record(batch, k, got, error, list);
  };
  for (i32 i = 0; i < count && first == count && !look.error; i++) {
    RequestSlot* const slot = list.get(i);
    switch (standing_of(slot)) {
      case Standing::kIdle: break;
      case Standing::kFinished: first = i; break;
      case Standing::kPending: look.pending = true; break;
      case Standing::kActive:
        if (FERMATA_UNLIKELY(batch.is_full())) ask_some(batch, false, look, note);
        batch.add(i, slot);
        break;
    }
  }
  if (first == count && !look.error && batch.count() != 0)
    ask_some(batch, waits && !look.active && !look.pending, look, note);
  if (first == count) return look;
  *index = first;
  look.found = 1;
  look.error = release_recorded_by(list, first, list.get(first),
                                   [status](const CanonStatus& of_request, int) {
                                    if (status) *status = of_request;
                                   });
  return look;
}

/// Hands out all requests of an array that have finished. `statuses`: by their order of discovery.
inline Look look_for_some(RequestList list, i32 count, bool waits, int* indices,
                          StatusList statuses) {
  Look look;
  Batch batch;
  const auto hand_out = [&](i32 k, const CanonStatus& got, int error) {
    const i32 i = batch.at(k);
    RequestSlot* const slot = list.get(i);
    slot->real() = batch.real(k);
    if (statuses.is_wanted()) statuses.put(look.found, got, error);
    if (release_entry(list, i, slot, &got, error)) look.error = kErrInStatus;
    indices[look.found++] = i;
  };
  for (i32 i = 0; i < count; i++) {
    RequestSlot* const slot = list.get(i);
    switch (standing_of(slot)) {
      case Standing::kIdle: break;
      case Standing::kPending: look.pending = true; break;
      case Standing::kFinished:
        if (release_recorded(list, i, slot, statuses, look.found)) look.error = kErrInStatus;
        indices[look.found++] = i;
        break;
      case Standing::kActive:
        if (FERMATA_UNLIKELY(batch.is_full())) ask_some(batch, false, look, hand_out);
        batch.add(i, slot);
        break;
    }
  }
  if (batch.count() != 0)
    ask_some(batch, waits && !look.active && !look.pending && look.found == 0, look, hand_out);
  return look;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Waitany(int count, RequestList list, int* index, CanonStatus* status) {
  LowerScope scope;
  for (Backoff backoff;; between_polls(backoff)) {
    const Look look = look_for_one(list, count, !core_is_shared(), index, status);
    if (FERMATA_LIKELY(look.found) || look.error) return look.error;
    if (!look.active && !look.pending) {
      *index = kUndefined;
      if (status) *status = empty_status();
      return kSuccess;
    }
    if (look.pending) poke_lower();
    if (checkpoint_wanted()) safe_point({.count = count, .list = &list});
  }
}

inline int Testany(int count, RequestList list, int* index, int* flag, CanonStatus* status) {
  LowerScope scope;
  const Look look = look_for_one(list, count, false, index, status);
  *flag = 1;
  if (look.found) return look.error;
  *index = kUndefined;
  *flag = !look.active && !look.pending;
  if (*flag && status) *status = empty_status();
  if (look.pending && !look.active) poke_lower();
  if (!*flag) note_polled(list, count);
  return look.error;
}

inline int Waitsome(int count, RequestList list, int* outcount, int* indices,
                    StatusList statuses) {
  LowerScope scope;
  for (Backoff backoff;; between_polls(backoff)) {
    const Look look = look_for_some(list, count, !core_is_shared(), indices, statuses);
    *outcount = look.found;
    if (FERMATA_LIKELY(look.found) || look.error) return look.error;
    if (!look.active && !look.pending) {
      *outcount = kUndefined;
      return kSuccess;
    }
    if (look.pending) poke_lower();
    if (checkpoint_wanted()) safe_point({.count = count, .list = &list});
  }
}

inline int Testsome(int count, RequestList list, int* outcount, int* indices,
                    StatusList statuses) {
  LowerScope scope;
  const Look look = look_for_some(list, count, false, indices, statuses);
  *outcount = look.found;
  if (look.found || look.error) return look.error;
  if (!look.active && !look.pending) {
    *outcount = kUndefined;
    return kSuccess;
  }
  if (look.pending && !look.active) poke_lower();
  note_polled(list, count);
  return kSuccess;
}

}  // namespace fermata::mpi::core
