// SPDX-License-Identifier: Apache-2.0
// Hints of communicators and windows: those that MPI names, kept for the application alone. The
// lower half never sees them, nor does anybody keep others.
#pragma once

#include "mpi/objects/infos.h"

namespace fermata::mpi {

struct Hint {
  const char* key;
  const char* otherwise;  // what holds where nobody says anything
};
// MPI 4.1, 7.4.4: promises of the application, which no communicator inherits.
inline constexpr Hint kCommHints[] = {
    {"mpi_assert_no_any_tag", "false"},
    {"mpi_assert_no_any_source", "false"},
    {"mpi_assert_exact_length", "false"},
    {"mpi_assert_allow_overtaking", "false"},
};
// MPI 4.1, 12.2.
inline constexpr Hint kWindowHints[] = {
    {"no_locks", "false"},
    {"accumulate_ordering", "rar,raw,war,waw"},
    {"accumulate_ops", "same_op_no_op"},
    {"same_size", "false"},
    {"same_disp_unit", "false"},
    {"alloc_shared_noncontig", "false"},
};

/// Takes over those of an info object's pairs that are hints. *kept: an info object, or null while
/// there are none.
template <int kCount>
int hints_take(Slot** kept, const Hint (&known)[kCount], Slot* info) {
  int error = kSuccess;
  for (const Hint& hint : known) {
    const InfoPair* const pair = is_info(info) ? info_get(info, hint.key) : nullptr;
    if (!pair) continue;
    if (!*kept) error = core::Info_create(kept);
    if (!error) error = core::Info_set(*kept, hint.key, pair->value);
    if (error) return error;
  }
  return kSuccess;
}

/// A new info object with the value of every hint.
template <int kCount>
int hints_give(Slot* kept, const Hint (&known)[kCount], Slot** info) {
  int error = core::Info_create(info);
  for (const Hint& hint : known) {
    const InfoPair* const pair = kept ? info_get(kept, hint.key) : nullptr;
    if (!error) error = core::Info_set(*info, hint.key, pair ? pair->value : hint.otherwise);
  }
  return error;
}

inline int comm_hints_take(Slot* comm, Slot* info) {
  return hints_take(&comm_of(comm)->info, kCommHints, info);
}
/// The end of a call that has made a communicator, or none, with an info object. Returns its error.
inline int with_hints(int error, Slot* made, Slot* info) {
  return error || !live_comm(made) ? error : comm_hints_take(made, info);
}

namespace core {

inline int Comm_dup_with_info(Slot* comm, Slot* info, Slot** newcomm) {
  const int error = Comm_dup(comm, newcomm);
  return with_hints(error, *newcomm, info);
}
inline int Comm_set_info(Slot* comm, Slot* info) {
  return live_comm(comm) ? comm_hints_take(comm, info) : int(kErrComm);
}
inline int Comm_get_info(Slot* comm, Slot** info) {
  const Comm* const c = live_comm(comm);
  return c ? hints_give(c->info, kCommHints, info) : int(kErrComm);
}

}  // namespace core
}  // namespace fermata::mpi
