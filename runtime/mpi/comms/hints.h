// SPDX-License-Identifier: Apache-2.0
// Hints of communicators and windows: those that MPI names, kept for the application alone. The
// lower half never sees them, nor does anybody keep others.
#pragma once

#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/slots.h"
#include "mpi/objects/infos.h"

namespace fermata::mpi {

struct Hint {
  const char* key;
  const char* otherwise;  // what holds where nobody says anything
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
int hints_take(InfoSlot** kept, const Hint (&known)[kCount], InfoSlot* info) {
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
int hints_give(InfoSlot* kept, const Hint (&known)[kCount], InfoSlot** info) {
  int error = core::Info_create(info);
  for (const Hint& hint : known) {
    const InfoPair* const pair = kept ? info_get(kept, hint.key) : nullptr;
    if (!error) error = core::Info_set(*info, hint.key, pair ? pair->value : hint.otherwise);
  }
  return error;
}

/// The end of a call that has made a communicator, or none, with an info object. Returns its error.
int with_hints(int error, CommSlot* made, InfoSlot* info);

}  // namespace fermata::mpi
