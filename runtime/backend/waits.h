// SPDX-License-Identifier: Apache-2.0
// Waiting that a checkpoint can end: the polls a front end would make one crossing each, made here
// in one call. All of them return when what was waited for has finished, in an error, or as soon as
// a checkpoint is pending; then the caller parks, and waits again.
//
// Invariant: a status is handed over whenever the request has finished, also in an error: the core
//            state needs its source. Not checked: hot path.
#pragma once

#include <sched.h>

#include "backend/status.h"
#include "base/backoff.h"
#include "halves/crossing.h"

namespace fermata::backend {

inline bool checkpoint_pending() {
  return FERMATA_UNLIKELY(__atomic_load_n(&crossing().pending, __ATOMIC_RELAXED) != 0);
}

/// True if the caller should stop polling.
[[gnu::always_inline]] inline bool interrupted(Backoff& backoff) {
  if (checkpoint_pending()) return true;
  if (backoff.is_spent()) sched_yield();
  return false;
}

/// Polls `request` `once`, or until it has finished (*done) or a checkpoint is pending. Returns
/// MPI's code.
[[gnu::always_inline]] inline int poll_request(MPI_Request* request, int* done, MPI_Status* status,
                                               bool once = false) {
  Backoff backoff;
  for (;;) {
    const int outcome = MPI_Test(request, done, status);
    if (FERMATA_LIKELY(*done || outcome != MPI_SUCCESS) || once || interrupted(backoff))
      return outcome;
  }
}

/// status->source: who is expected to have sent it, should the MPI leave it alone in an error.
[[gnu::always_inline]] inline int finish(int outcome, const MPI_Status& from, CanonStatus* to) {
  if (to) status_out(from, *to);
  return done(outcome);
}

[[gnu::always_inline]] inline int look_at(RealRequest* request, int* done, CanonStatus* status,
                                          bool once) {
  MPI_Status native_status;
  native_status.MPI_ERROR = MPI_SUCCESS;
  if (status) native_status.MPI_SOURCE = rank_in(status->source);
  MPI_Request real = native(*request);
  *done = 0;
  const int outcome = poll_request(&real, done, status ? &native_status : MPI_STATUS_IGNORE, once);
  *request = canonical<mpi::kRequest>(real);
  if (FERMATA_UNLIKELY(!*done && outcome == MPI_SUCCESS)) return 0;
  return finish(outcome, native_status, status);
}
inline int wait(RealRequest* request, int* done, CanonStatus* status) {
  return look_at(request, done, status, false);
}
inline int test(RealRequest* request, int* done, CanonStatus* status) {
  return look_at(request, done, status, true);
}

/// MPI_Testsome, `once` or until something has finished or a checkpoint is pending. *outcount: 0 if
/// nothing has. Only the statuses of what has are handed over.
[[gnu::always_inline]] inline int look_for_some(int count, RealRequest* requests, int* outcount,
                                                int* indices, CanonStatus* statuses, bool once) {
  HandleArray<mpi::kRequest> reals(requests, count);
  Scratch<MPI_Status> native_statuses(count);
  MPI_Status* const room = native_statuses.data();
  for (int i = 0; i < count; i++) room[i].MPI_SOURCE = MPI_ANY_SOURCE;
  Backoff backoff;
  int outcome;
  do {
    *outcount = 0;
    outcome = MPI_Testsome(count, reals.data(), outcount, indices, room);
    if (*outcount == MPI_UNDEFINED) *outcount = 0;
  } while (*outcount == 0 && outcome == MPI_SUCCESS && !once && !interrupted(backoff));
  for (int n = 0; n < *outcount; n++) {
    if (FERMATA_LIKELY(outcome == MPI_SUCCESS)) room[n].MPI_ERROR = MPI_SUCCESS;
    status_out(room[n], statuses[n]);
  }
  return done(outcome);
}
inline int test_some(int count, RealRequest* requests, int* outcount, int* indices,
                     CanonStatus* statuses) {
  return look_for_some(count, requests, outcount, indices, statuses, true);
}
inline int wait_some(int count, RealRequest* requests, int* outcount, int* indices,
                     CanonStatus* statuses) {
  return look_for_some(count, requests, outcount, indices, statuses, false);
}

inline int receive(void* buf, int count, RealDatatype datatype, int source, int tag, RealComm comm,
                   CanonStatus* status, RealRequest* left) {
  MPI_Request real;
  const int native_source = rank_in(source);
  *left = {};
  int outcome = MPI_Irecv(as_buffer(buf), count, native(datatype), native_source, tag_in(tag),
                          native(comm), &real);
  if (FERMATA_UNLIKELY(outcome != MPI_SUCCESS)) return failed(outcome);
  MPI_Status native_status;
  native_status.MPI_ERROR = MPI_SUCCESS;
  native_status.MPI_SOURCE = native_source;
  int done = 0;
  outcome = poll_request(&real, &done, status ? &native_status : MPI_STATUS_IGNORE);
  if (FERMATA_UNLIKELY(!done && outcome == MPI_SUCCESS)) {
    *left = canonical<mpi::kRequest>(real);
    return 0;
  }
  return finish(outcome, native_status, status);
}

/// MPI_Testall, `once` or until all have finished or a checkpoint is pending.
[[gnu::always_inline]] inline int look_for_all(int count, RealRequest* requests, int* all_done,
                                               CanonStatus* statuses, bool once) {
  HandleArray<mpi::kRequest> reals(requests, count);
  Scratch<MPI_Status> native_statuses(statuses ? count : 0);
  MPI_Status* const room = native_statuses.data();
  for (int i = 0; statuses && i < count; i++) room[i].MPI_SOURCE = MPI_ANY_SOURCE;
  Backoff backoff;
  int outcome;
  *all_done = 0;
  do {
    outcome = MPI_Testall(count, reals.data(), all_done, statuses ? room : MPI_STATUSES_IGNORE);
  } while (!*all_done && outcome == MPI_SUCCESS && !once && !interrupted(backoff));
  if (FERMATA_LIKELY(outcome == MPI_SUCCESS)) {
    for (int i = 0; statuses && *all_done && i < count; i++) {
      room[i].MPI_ERROR = MPI_SUCCESS;
      status_out(room[i], statuses[i]);
    }
    return 0;
  }
  for (int i = 0; statuses && i < count; i++) status_out(room[i], statuses[i]);
  return failed(outcome);
}
inline int test_all(int count, RealRequest* requests, int* all_done, CanonStatus* statuses) {
  return look_for_all(count, requests, all_done, statuses, true);
}
inline int wait_all(int count, RealRequest* requests, int* all_done, CanonStatus* statuses) {
  return look_for_all(count, requests, all_done, statuses, false);
}

}  // namespace fermata::backend
