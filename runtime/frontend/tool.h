// SPDX-License-Identifier: Apache-2.0
// MPI_T, the interface of tools (MPI 4.1, 15.3), of an MPI that has no variable, category, event or
// source of its own to show: numbers are 0, names unknown, indices too large. The variables of the
// MPI below are no part of a job that continues under another. What is refused whatever its
// arguments are is in spec/mpi/annotations.toml, [tool_refusal].
//
// Included by a front end whose conversions come before.
#pragma once

#include "frontend/callbacks.h"

namespace fermata::front::tool {

inline i32 users = 0;      // MPI_T_init_thread, less MPI_T_finalize
inline u8 session_marker;  // whose address every session of performance variables is

inline bool is_initialized() { return __atomic_load_n(&users, __ATOMIC_RELAXED) > 0; }

inline int init_thread(int, int* provided) {
  __atomic_fetch_add(&users, 1, __ATOMIC_RELAXED);
  *provided = thread_level_out(mpi::kThreadMultiple);
  return abi::kSuccess;
}
inline int finalize() {
  __atomic_fetch_sub(&users, 1, __ATOMIC_RELAXED);
  return abi::kSuccess;
}

inline int none(int* count) {
  *count = 0;
  return abi::kSuccess;
}
inline int cvar_get_num(int* count) { return none(count); }
inline int pvar_get_num(int* count) { return none(count); }
inline int category_get_num(int* count) { return none(count); }
inline int event_get_num(int* count) { return none(count); }
inline int source_get_num(int* count) { return none(count); }
inline int category_changed(int* update_number) { return none(update_number); }

inline int pvar_session_create(void** session) {
  *session = &session_marker;
  return abi::kSuccess;
}
inline int pvar_session_free(void** session) {
  if (*session != &session_marker) return abi::kTErrInvalidSession;
  *session = nullptr;
  return abi::kSuccess;
}

/// There are no handles, but all of them may be named.
inline int all_handles(const void* session, const void* handle) {
  if (session != &session_marker) return abi::kTErrInvalidSession;
  return handle == kAllToolHandles ? abi::kSuccess : abi::kTErrInvalidHandle;
}
inline int pvar_start(void* session, void* handle) { return all_handles(session, handle); }
inline int pvar_stop(void* session, void* handle) { return all_handles(session, handle); }
inline int pvar_reset(void* session, void* handle) { return all_handles(session, handle); }

}  // namespace fermata::front::tool
