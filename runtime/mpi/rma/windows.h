// SPDX-License-Identifier: Apache-2.0
// One-sided communication: windows, made, named, freed. Synchronization is in epochs.h.
//
// Idea: the lower half's window knows one epoch only, MPI_Win_lock_all, from its creation to its
// end. Within it Put, Get and Accumulate are legal at any time and a flush completes them, so a
// window can be brought to rest at any moment without its other members' help. What the application
// calls epochs (fences, groups, locks) is built on flush, on messages and on atomic counters in
// upper memory; so a checkpoint may come in the middle of an epoch, and after a restart the epoch
// is still open, because the lower half never knew of it.
//
// A window has a communicator of its own (a duplicate the application never sees): its members, its
// id, its collective clock and the messages of its epochs. Where its memory is, and how its
// locks are made where all members are on one host: near_windows.h. Elsewhere it has a second lower
// window, for locks.
//
// MPICH 4.0 over UCX goes to the wrong place in a window that does not begin at a multiple of 16,
// as segments of shared memory need not. So the real window begins at the multiple below the
// memory, and its displacements are bytes from there.
//
// Invariant: both lower windows of a live window are in a lock_all epoch. Not checked: no MPI
//            tells; an error of beginning one is that of the window.
// Invariant: Slot::clock of a window's slot is the clock of its communicator. Checked where ranks
//            drain (windows_flush).
// Source: docs/decisions/0019-windows-in-one-epoch.md, 0063-windows-share-pages.md.
#pragma once

#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "mpi/comms/comms.h"
#include "mpi/comms/hints.h"
#include "mpi/comms/own_comms.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/handles/window.h"
#include "mpi/rma/epoch_order.h"
#include "mpi/rma/host_lock.h"
#include "mpi/rma/near_windows.h"

namespace fermata::mpi {

/// Tells all members of a window about each other's memory. Every member calls it; all get
/// kErrNoMem if one has none.
int members_exchange(Window* window, bool has_memory = true);

/// Makes a window's two real windows. Collective over its communicator, whose real one exists.
/// *agreed: all members have got this result.
int window_make(Window* window, bool* agreed);

void window_forget(Window* window);

/// The part that all constructors share. `memory` fills in base and size. All of it belongs to the
/// one call on `comm` that is counted: a rank that has entered it finishes it before it parks.
template <typename Memory>
int window_new(CommSlot* comm, i32 flavor, i32 disp_unit, InfoSlot* info, WinSlot** win,
               Memory memory) {
  if (disp_unit < 1) return kErrDisp;
  return with_own_comm(comm, [&](CommSlot* made) {
    Window* const window = arena_new<Window>();
    const u64 members = u64(comm_of(made)->size);
    window->comm = made;
    window->ranks = i32(members);
    window->flavor = flavor;
    window->disp_unit = disp_unit;
    epochs_begin(window);
    window->app_flavor = front::app_win_flavor(flavor);
    window->app_model = front::app_win_model(kWinUnified);
    window->locks = arena_array<LockKind>(members);
    __builtin_memset(window->locks, 0, members);
    window->slot = slot_new<kWin>(window);
    window->counters = slot_new<kWin>(nullptr);
    window->slot->clock = made->clock;
    window->is_new = true;
    window->door = door_take(members);
    window->heard = arena_array<u32>(2 * members);
    window->kept = arena_array<u32>(2 * members);
    __builtin_memset(window->heard, 0, 2 * members * sizeof(u32));
    __builtin_memset(window->kept, 0, 2 * members * sizeof(u32));
    comm_of(made)->window = window;
    int error = memory(window);
    {
      const BlockingCall open;
      // Where all ranks are members there is no other group.
      const bool others = members > 1 && members < u64(state().world.size);
      const HostLock lock(others && comm_of(made)->rank == 0, launcher().config("ranks"));
      bool agreed = false;
      if (!error) error = window_make(window, &agreed);
      if (!agreed) error = members_agree(made, error);
    }
    if (error) {
      window_forget(window);
      own_comm_discard(made);
      return error;
    }
    *win = window->slot;
    return hints_take(&window->info, kWindowHints, info);
  });
}

/// Completes everything this rank has begun on any window. All members are parked or run on, and
/// poll, so this ends. False: the lower half has refused.
bool windows_flush();

u64 window_id(const Window* window);

/// The window with the smallest id above `last`, or null.
Window* next_window(u64 last);

/// Visits every window, in an order in which all of their members visit them.
template <typename Visit>
void each_window(Visit visit) {
  for (Window* next = next_window(0); next;) {
    const u64 last = window_id(next);
    visit(next);
    next = next_window(last);
  }
}

/// Ends a window's two real windows. Collective over it.
int window_close(Window* window);

}  // namespace fermata::mpi
