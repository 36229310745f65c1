// SPDX-License-Identifier: Apache-2.0
#include "mpi/p2p/request_arrays.h"

namespace fermata::mpi {

Standing standing_in_file(RequestSlot* slot) {
  return complete_if_finished(slot) ? Standing::kFinished : Standing::kPending;
}

void finish_rest(i32 from, i32 count, RequestList list, StatusList statuses) {
  for (i32 i = from; i < count; i++) {
    RequestSlot* slot = list.get(i);
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
