// SPDX-License-Identifier: Apache-2.0
// One-sided operations with a request (p2p/lower_request.h).
#pragma once

#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/slots.h"
#include "mpi/p2p/lower_request.h"
#include "mpi/rma/direct.h"
#include "mpi/rma/epoch_order.h"

namespace fermata::mpi {

/// Likewise an operation on the memory of a window's member.
template <typename Begin>
int window_request(WinSlot* win, i32 target, RequestSlot** handle, Begin begin) {
  const int error = access_error(win, target);
  return error ? error : lower_request(win, handle, begin);
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

inline int Rput(const void* origin, int count, DatatypeSlot* type, int target, i64 at,
                int target_count, DatatypeSlot* target_type, WinSlot* win, RequestSlot** request) {
  {
    LowerScope scope;
    const Direct direct(win, origin, count, type, target, at, target_count, target_type);
    if (FERMATA_LIKELY(direct.target != nullptr)) {
      __builtin_memcpy(direct.target, origin, direct.bytes);
      *request = state().p2p.completed;
      return kSuccess;
    }
  }
  return window_request(win, target, request, [&](RealRequest* real) {
    return lower().Rput(origin, count, type->real(), target, real_displacement(win, target, at),
                        target_count, target_type->real(), win->real(), real);
  });
}
inline int Rget(void* origin, int count, DatatypeSlot* type, int target, i64 at, int target_count,
                DatatypeSlot* target_type, WinSlot* win, RequestSlot** request) {
  {
    LowerScope scope;
    const Direct direct(win, origin, count, type, target, at, target_count, target_type);
    if (FERMATA_LIKELY(direct.target != nullptr)) {
      __builtin_memcpy(origin, direct.target, direct.bytes);
      *request = state().p2p.completed;
      return kSuccess;
    }
  }
  return window_request(win, target, request, [&](RealRequest* real) {
    return lower().Rget(origin, count, type->real(), target, real_displacement(win, target, at),
                        target_count, target_type->real(), win->real(), real);
  });
}
inline int Raccumulate(const void* origin, int count, DatatypeSlot* type, int target, i64 at,
                       int target_count, DatatypeSlot* target_type, OpSlot* op, WinSlot* win,
                       RequestSlot** request) {
  return window_request(win, target, request, [&](RealRequest* real) {
    return lower().Raccumulate(origin, count, type->real(), target,
                               real_displacement(win, target, at), target_count,
                               target_type->real(), op->real(), win->real(), real);
  });
}
inline int Rget_accumulate(const void* origin, int count, DatatypeSlot* type, void* result,
                           int result_count, DatatypeSlot* result_type, int target, i64 at,
                           int target_count, DatatypeSlot* target_type, OpSlot* op, WinSlot* win,
                           RequestSlot** request) {
  return window_request(win, target, request, [&](RealRequest* real) {
    return lower().Rget_accumulate(origin, count, type->real(), result, result_count,
                                   result_type->real(), target, real_displacement(win, target, at),
                                   target_count, target_type->real(), op->real(), win->real(),
                                   real);
  });
}

}  // namespace fermata::mpi::core
