// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/request_arrays.h"

namespace fermata::mpi {

Standing standing_in_file(Slot* slot) {
  return complete_if_finished(slot) ? Standing::kFinished : Standing::kPending;
}

int finish_batch(Batch& batch, RequestList list, StatusList statuses, bool pending) {
  int result = kSuccess;
  for (Backoff backoff; batch.count() != 0; between_polls(backoff)) {
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
    if (collect_again(batch, list, statuses, &pending)) result = kErrInStatus;
  }
  return result;
}

void finish_rest(i32 from, i32 count, RequestList list, StatusList statuses) {
  for (i32 i = from; i < count; i++) {
    Slot* slot = list.get(i);
    CanonStatus status = empty_status();
    bool done = true;
    int error = kSuccess;
    if (!is_idle(slot)) {
      error = poll_request(&MpiCalls::Test, &slot, &done, &status);
      list.put(i, slot);
    }
    if (statuses.is_wanted()) statuses.put(i, status, done ? error : int(kErrPending));
  }
}

}  // namespace fermata::mpi
