// SPDX-License-Identifier: Apache-2.0
// Which epochs of a window are open, and what is refused with MPI_ERR_RMA_SYNC in them.
//
//   an operation on a member's memory    where no access epoch is open
//   MPI_Win_lock, _lock_all              in an epoch of MPI_Win_start
//   MPI_Win_start, MPI_Win_fence         in one of these, or of a lock
//   MPI_Win_free                         in any but a fence's, of a program made for MPICH
//   MPI_Win_lock_all with MPI_Win_lock   the same
//
// So both MPIs refuse them (MPI 4.1, 12.5, calls all of them wrong), but for Open MPI's windows of
// shared memory, where it looks at nothing. Other wrong orders are let through: they do no harm.
//
// Invariant: Window::access_epochs is the number of those that are open: a fence's, that of
//            MPI_Win_start, one for each lock, one for a lock on all; unchecked ones have one more.
//            Not checked: a program may end epochs that it has not begun.
// Source: docs/decisions/0070-epochs-in-the-wrong-order.md.
#pragma once

#include "frontend/callbacks.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/window.h"

namespace fermata::mpi {

/// True for a window whose epochs the program's own MPI does not look at.
inline bool is_unchecked(const Window* window) {
  return window->flavor == kWinFlavorShared && !front::refuses_nested_epochs();
}

inline void epochs_begin(Window* window) { window->access_epochs = is_unchecked(window); }

/// True in an epoch of MPI_Win_start or of a lock.
inline bool within_epoch(const Window* window) {
  return !is_unchecked(window) && window->access_epochs > i32(window->fenced);
}

/// kErrRmaSync if the memory of no member may be accessed now. `rank`: whose is to be; what is no
/// member's is the lower half's to refuse.
inline int access_error(WinSlot* win, i32 rank) {
  const Window* const window = window_of(win);
  const bool is_members = window && u32(rank) < u32(window->ranks);
  return is_members && window->access_epochs == 0 ? kErrRmaSync : kSuccess;
}

inline void fence_ends(Window* window) {
  window->access_epochs -= window->fenced;
  window->fenced = false;
}
/// `followed`: operations may follow, to be ended by the next fence.
inline void fence_begins(Window* window, bool followed) {
  fence_ends(window);
  window->fenced = followed;
  window->access_epochs += followed;
}

inline void epoch_opens(Window* window) {
  fence_ends(window);
  window->access_epochs++;
}
inline void epoch_closes(Window* window) { window->access_epochs--; }

/// kErrRmaSync if a lock may not be asked for now, on a member or on all.
inline int lock_error(const Window* window, bool on_all) {
  if (!is_unchecked(window) && window->access.ranks) return kErrRmaSync;
  if (!front::refuses_nested_epochs()) return kSuccess;
  const bool other_kind = on_all ? within_epoch(window) : window->all_locked != LockKind::kNone;
  return other_kind ? kErrRmaSync : kSuccess;
}

inline int free_error(const Window* window) {
  const bool is_open = within_epoch(window) || window->exposure.ranks;
  return is_open && front::refuses_nested_epochs() ? kErrRmaSync : kSuccess;
}

}  // namespace fermata::mpi
