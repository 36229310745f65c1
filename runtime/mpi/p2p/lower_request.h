// SPDX-License-Identifier: Apache-2.0
// Requests that the lower half finishes by itself: one-sided operations, reads and writes of files.
// They count for no message and no clock. All have ended before an image is cut (drain.h waits for
// every active request that is not a receive), so they need no recipe.
#pragma once

#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

/// Begins one on a window or file: `begin(real)` makes the lower call.
template <typename Begin>
int lower_request(Slot* object, RequestSlot** handle, Begin begin) {
  LowerScope scope;
  RequestSlot* const slot = request_slot_new();
  const int error = begin(&slot->real());
  if (error) {
    request_slot_free(slot);
    return error;
  }
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kOther, RequestState::kActive);
  request->comm = nullptr;
  request->object = object;
  request->peer = kUndefined;
  *handle = slot;
  return kSuccess;
}

}  // namespace fermata::mpi
