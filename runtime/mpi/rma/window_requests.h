// SPDX-License-Identifier: Apache-2.0
// Requests that the lower half finishes by itself: one-sided operations, reads and writes of files.
// They count for no message and no clock. All have ended before an image is cut (park.h waits for
// every active request that is not a receive), so they need no recipe.
#pragma once

#include "mpi/rma/direct.h"

namespace fermata::mpi {

/// Begins one on a window or file: `begin(real)` makes the lower call.
template <typename Begin>
int lower_request(Slot* object, Slot** handle, Begin begin) {
  LowerScope scope;
  Slot* const slot = request_slot_new();
  const int error = begin(&slot->real);
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

/// Likewise an operation on the memory of a window's member.
template <typename Begin>
int window_request(Slot* win, i32 target, Slot** handle, Begin begin) {
  const int error = access_error(win, target);
  return error ? error : lower_request(win, handle, begin);
}

namespace core {

inline int Rput(const void* origin, int count, Slot* type, int target, i64 at, int target_count,
                Slot* target_type, Slot* win, Slot** request) {
  {
    LowerScope scope;
    const Direct direct(win, origin, count, type, target, at, target_count, target_type);
    if (FERMATA_LIKELY(direct.target != nullptr)) {
      __builtin_memcpy(direct.target, origin, direct.bytes);
      *request = state().completed;
      return kSuccess;
    }
  }
  return window_request(win, target, request, [&](u64* real) {
    return lower().Rput(origin, count, type->real, target, real_displacement(win, target, at),
                        target_count, target_type->real, win->real, real);
  });
}
inline int Rget(void* origin, int count, Slot* type, int target, i64 at, int target_count,
                Slot* target_type, Slot* win, Slot** request) {
  {
    LowerScope scope;
    const Direct direct(win, origin, count, type, target, at, target_count, target_type);
    if (FERMATA_LIKELY(direct.target != nullptr)) {
      __builtin_memcpy(origin, direct.target, direct.bytes);
      *request = state().completed;
      return kSuccess;
    }
  }
  return window_request(win, target, request, [&](u64* real) {
    return lower().Rget(origin, count, type->real, target, real_displacement(win, target, at),
                        target_count, target_type->real, win->real, real);
  });
}
inline int Raccumulate(const void* origin, int count, Slot* type, int target, i64 at,
                       int target_count, Slot* target_type, Slot* op, Slot* win, Slot** request) {
  return window_request(win, target, request, [&](u64* real) {
    return lower().Raccumulate(origin, count, type->real, target,
                               real_displacement(win, target, at), target_count,
                               target_type->real, op->real, win->real, real);
  });
}
inline int Rget_accumulate(const void* origin, int count, Slot* type, void* result,
                           int result_count, Slot* result_type, int target, i64 at,
                           int target_count, Slot* target_type, Slot* op, Slot* win,
                           Slot** request) {
  return window_request(win, target, request, [&](u64* real) {
    return lower().Rget_accumulate(origin, count, type->real, result, result_count,
                                   result_type->real, target, real_displacement(win, target, at),
                                   target_count, target_type->real, op->real, win->real, real);
  });
}

}  // namespace core
}  // namespace fermata::mpi
