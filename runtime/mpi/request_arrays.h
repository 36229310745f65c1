// SPDX-License-Identifier: Apache-2.0
// Waiting for several requests at once, and testing them. See request.h.
//
// Invariant: the lower half is shown an array of real handles of its own; the application's array
//            changes only where a request is retired.
#pragma once

#include "mpi/request.h"

namespace fermata::mpi {

// The lower half's view of an array of requests: real handles, and the null request wherever
// nothing is in progress.
class RealRequests {
 public:
  explicit RealRequests(i32 count) : count_(count) {
    if (FERMATA_LIKELY(count <= kInline)) return;
    reals_ = arena_array<u64>(u64(count));
    statuses_ = arena_array<CanonStatus>(u64(count));
  }
  ~RealRequests() {
    if (FERMATA_LIKELY(count_ <= kInline)) return;
    arena_free(reals_);
    arena_free(statuses_);
  }
  RealRequests(const RealRequests&) = delete;
  RealRequests& operator=(const RealRequests&) = delete;

  /// Returns how many requests are in progress; *done is the index of one that has finished in our
  /// own books, or -1.
  i32 gather(Slot* const* handles, i32* done) {
    i32 active = 0;
    last_ = -1;
    *done = -1;
    needs_statuses_ = pending_ = false;
    const u64 null_real = state().lower_request_null;
    for (i32 i = 0; i < count_; i++) {
      reals_[i] = null_real;
      if (is_idle(handles[i])) continue;
      const Request* const request = request_of(handles[i]);
      if (FERMATA_LIKELY(request->state == RequestState::kActive)) {
        reals_[i] = handles[i]->real;
        needs_statuses_ |= request->wants_status;
        last_ = i;
        active++;
      } else if (request->state == RequestState::kPending && is_still_pending(handles[i])) {
        pending_ = true;
      } else if (*done < 0) {
        *done = i;
      }
    }
    return active;
  }
  /// Of the last gather(): some request waits for the application to complete it.
  bool pending() const { return pending_; }
  /// Of the last gather(): room for statuses if the books need some request's, else null.
  CanonStatus* needed_statuses() { return needs_statuses_ ? statuses_ : nullptr; }
  i32 last() const { return last_; }  // the last one in progress, or -1
  u64* reals() { return reals_; }
  CanonStatus* statuses() { return statuses_; }

 private:
  static constexpr i32 kInline = 64;
  struct Room {  // not initialised: most calls touch a few entries
    alignas(CanonStatus) u8 statuses[sizeof(CanonStatus) * kInline];
    u64 reals[kInline];
  };
  i32 count_;
  i32 last_ = -1;
  bool needs_statuses_ = false;
  bool pending_ = false;
  Room room_;
  u64* reals_ = room_.reals;
  CanonStatus* statuses_ = reinterpret_cast<CanonStatus*>(room_.statuses);
};

/// Takes over the outcome of entry i, which the lower half has finished (or nothing was active).
/// `error` is the entry's class. Returns it, or the saved one.
inline int conclude(Slot** handle, CanonStatus* status, int error) {
  if (FERMATA_UNLIKELY(is_idle(*handle))) {
    *status = empty_status();
    return kSuccess;
  }
  Request* const request = request_of(*handle);
  if (FERMATA_LIKELY(request->state == RequestState::kActive)) {
    settle(request, *status, error);
  } else {
    error = outcome_of(request);
    *status = request->status;
  }
  if (FERMATA_UNLIKELY(error != kSuccess)) note_culprit(request);
  retire(handle);
  return error;
}

/// All requests of an array have finished, perhaps some with errors: fills the statuses.
/// `error`: what the lower half's Testall returned. Returns kErrInStatus if any failed.
inline int conclude_all(i32 count, Slot** handles, u64* reals, CanonStatus* statuses, int error) {
  int result = kSuccess;
  for (i32 i = 0; i < count; i++) {
    Slot* const slot = handles[i];
    int own = error == kErrInStatus ? statuses[i].error : kSuccess;
    if (FERMATA_UNLIKELY(own == kErrPending)) {  // still in progress: the handle stays
      slot->real = reals[i];
      result = kErrInStatus;
      continue;
    }
    own = conclude(&handles[i], &statuses[i], own);
    if (FERMATA_UNLIKELY(own != kSuccess || result != kSuccess)) {
      if (own != kSuccess && result == kSuccess)
        for (i32 k = 0; k < i; k++) statuses[k].error = kSuccess;
      statuses[i].error = own;
      if (own != kSuccess) result = kErrInStatus;
    }
  }
  return result;
}

/// conclude_all() for a caller who wants no statuses, when the lower half was asked for none.
[[gnu::always_inline]] inline int conclude_unseen(i32 count, Slot** handles,
                                                  const u64* reals, int error) {
  int result = error ? kErrInStatus : kSuccess;
  for (i32 i = 0; i < count; i++) {
    Slot* const slot = handles[i];
    if (FERMATA_UNLIKELY(is_idle(slot))) continue;
    Request* const request = request_of(slot);
    if (FERMATA_UNLIKELY(request->state != RequestState::kActive)) {
      if (outcome_of(request)) result = kErrInStatus;
      if (request->error) note_culprit(request);
    } else {
      // In an error some may still be in progress: the lower half has left their handles alone.
      if (FERMATA_UNLIKELY(error != kSuccess && reals[i] == slot->real)) continue;
      settle_unseen(request);
      if (FERMATA_UNLIKELY(error != kSuccess)) note_culprit(request);  // or another one of them
    }
    retire(&handles[i]);
  }
  return result;
}

using LowerPollAll = int (*)(int, u64*, int*, CanonStatus*);

/// Asks the lower half for the only request of an array that is in progress. Returns what the call
/// for all of them would.
[[gnu::always_inline]] inline int poll_single(LowerPoll MpiCalls::*poll, RealRequests& real,
                                              int count, Slot** requests, int* flag,
                                              CanonStatus* statuses) {
  const i32 i = real.last();
  CanonStatus* const status = statuses ? &statuses[i] : nullptr;
  if (status) status->source = request_of(requests[i])->peer;
  const int error = (lower().*poll)(&real.reals()[i], flag, status);
  if (FERMATA_LIKELY(error == kSuccess)) return kSuccess;
  for (i32 k = 0; statuses && k < count; k++) statuses[k].error = kSuccess;
  if (status) status->error = error;
  return kErrInStatus;
}

/// Asks the lower half for all requests, once (Test, Testall) or until all have finished or a
/// checkpoint is pending (wait, wait_all). If *flag, or in an error, the requests that have
/// finished are retired.
[[gnu::always_inline]] inline int poll_all(LowerPoll MpiCalls::*one, LowerPollAll MpiCalls::*all,
                                           RealRequests& real, int count, Slot** requests,
                                           int* flag, CanonStatus* statuses) {
  i32 done;
  int error = kSuccess;
  *flag = 1;
  const i32 active = real.gather(requests, &done);
  if (FERMATA_UNLIKELY(real.pending())) {
    poke_lower();  // the others are to get on all the same
    *flag = 0;
    return kSuccess;
  }
  CanonStatus* const room = statuses ? statuses : real.needed_statuses();
  if (active == 1) error = poll_single(one, real, count, requests, flag, room);
  else if (active != 0) error = (lower().*all)(count, real.reals(), flag, room);
  if (!*flag && error == kSuccess) return kSuccess;
  if (FERMATA_UNLIKELY(error != kSuccess && error != kErrInStatus)) return error;
  if (room) return conclude_all(count, requests, real.reals(), room, error);
  return conclude_unseen(count, requests, real.reals(), error);
}

/// Waits for all requests of an array.
[[gnu::noinline]] inline int wait_all(int count, Slot** requests, CanonStatus* statuses) {
  RealRequests real(count);
  for (Patience patience;; between_polls(patience)) {
    int flag;
    const bool shared = books_are_shared();
    const int error = poll_all(shared ? &MpiCalls::Test : &MpiCalls::wait,
                               shared ? &MpiCalls::Testall : &MpiCalls::wait_all, real, count,
                               requests, &flag, statuses);
    if (FERMATA_LIKELY(flag || error != kSuccess)) return error;
    safe_point({requests, count});
  }
}

/// Waits for all requests of an array, for a caller who wants no statuses. Those that have finished
/// in our books need no call of the lower half; in most exchanges one is left, because small sends
/// have finished when they have begun.
[[gnu::always_inline]] inline int wait_all_unseen(int count, Slot** requests) {
  Slot** last = nullptr;
  int left = 0;
  int result = kSuccess;
  for (i32 i = 0; i < count; i++) {
    Slot* const slot = requests[i];
    if (is_idle(slot)) continue;
    if (request_of(slot)->state != RequestState::kDone) {
      last = &requests[i];
      left++;
      continue;
    }
    if (FERMATA_UNLIKELY(outcome_of(request_of(slot)) != kSuccess)) {
      note_culprit(request_of(slot));
      result = kErrInStatus;
    }
    retire(&requests[i]);
  }
  if (FERMATA_UNLIKELY(left > 1)) {
    const int error = wait_all(count, requests, nullptr);
    return error ? error : result;
  }
  return left == 1 && wait_request(last, nullptr) != kSuccess ? kErrInStatus : result;
}

namespace core {

inline int Waitall(int count, Slot** requests, CanonStatus* statuses) {
  LowerScope scope;
  return statuses ? wait_all(count, requests, statuses) : wait_all_unseen(count, requests);
}

inline int Testall(int count, Slot** requests, int* flag, CanonStatus* statuses) {
  LowerScope scope;
  RealRequests real(count);
  const int error =
      poll_all(&MpiCalls::Test, &MpiCalls::Testall, real, count, requests, flag, statuses);
  if (!*flag) note_polled(requests, count);
  return error;
}

}  // namespace core

/// One poll for any finished request. *index: kUndefined if none is active, -1 if none finished
/// yet.
inline int poll_any(RealRequests& real, int count, Slot** requests, int* index,
                    CanonStatus* status) {
  i32 done;
  const i32 active = real.gather(requests, &done);
  if (done >= 0) {
    *index = done;
    return conclude(&requests[done], status, kSuccess);
  }
  if (active == 0 && real.pending()) {
    poke_lower();
    *index = -1;
    return kSuccess;
  }
  if (active == 0) {
    *index = kUndefined;
    *status = empty_status();
    return kSuccess;
  }
  int flag = 0;
  const int error = lower().Testany(count, real.reals(), index, &flag, status);
  if (!flag && error == kSuccess) {
    *index = -1;
    return kSuccess;
  }
  if (*index < 0) return error;
  return conclude(&requests[*index], status, error);
}

/// One poll for all finished requests. *outcount: kUndefined if none is active.
inline int poll_some(RealRequests& real, int count, Slot** requests, int* outcount, int* indices,
                     CanonStatus* statuses) {
  i32 done;
  const i32 active = real.gather(requests, &done);
  if (active == 0 && done < 0) {
    if (real.pending()) poke_lower();
    *outcount = real.pending() ? 0 : kUndefined;
    return kSuccess;
  }
  if (done >= 0) {  // hand out what our own books hold; the next call asks the lower half
    i32 n = 0;
    int result = kSuccess;
    for (i32 i = 0; i < count; i++) {
      if (is_null_request(requests[i]) || request_of(requests[i])->state != RequestState::kDone)
        continue;
      indices[n] = i;
      const int own = conclude(&requests[i], &statuses[n], kSuccess);
      statuses[n++].error = own;
      if (own) result = kErrInStatus;
    }
    *outcount = n;
    return result;
  }
  int error = lower().Testsome(count, real.reals(), outcount, indices, statuses);
  int result = kSuccess;
  for (i32 n = 0; n < *outcount; n++) {
    const int own = conclude(&requests[indices[n]], &statuses[n],
                             error == kErrInStatus ? statuses[n].error : kSuccess);
    if (error == kErrInStatus) statuses[n].error = own;
    if (own) result = kErrInStatus;
  }
  return result ? result : error == kErrInStatus ? kErrInStatus : error;
}

namespace core {

inline int Waitany(int count, Slot** requests, int* index, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  if (!status) status = &local;
  RealRequests real(count);
  Patience patience;
  for (;;) {
    const int error = poll_any(real, count, requests, index, status);
    if (*index >= 0 || *index == kUndefined || error) return error;
    if (checkpoint_wanted()) safe_point({requests, count});
    between_polls(patience);
  }
}

inline int Testany(int count, Slot** requests, int* index, int* flag, CanonStatus* status) {
  LowerScope scope;
  CanonStatus local;
  if (!status) status = &local;
  RealRequests real(count);
  const int error = poll_any(real, count, requests, index, status);
  *flag = *index != -1;
  if (!*flag) note_polled(requests, count);
  if (*index == -1) *index = kUndefined;
  return error;
}

inline int Waitsome(int count, Slot** requests, int* outcount, int* indices,
                    CanonStatus* statuses) {
  LowerScope scope;
  RealRequests real(count);
  if (!statuses) statuses = real.statuses();
  Patience patience;
  for (;;) {
    *outcount = 0;
    const int error = poll_some(real, count, requests, outcount, indices, statuses);
    if (*outcount != 0 || error) return error;
    if (checkpoint_wanted()) safe_point({requests, count});
    between_polls(patience);
  }
}

inline int Testsome(int count, Slot** requests, int* outcount, int* indices,
                    CanonStatus* statuses) {
  LowerScope scope;
  RealRequests real(count);
  if (!statuses) statuses = real.statuses();
  *outcount = 0;
  const int error = poll_some(real, count, requests, outcount, indices, statuses);
  if (*outcount == 0) note_polled(requests, count);
  return error;
}

}  // namespace core
}  // namespace fermata::mpi
