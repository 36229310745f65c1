// SPDX-License-Identifier: Apache-2.0
// Windows whose members all run on this host ("near"): their memory is shared, as it would be
// without us, and so are the words that their locks are made of.
//
// The lower half is asked for MPI_Win_allocate_shared whatever the kind, because both MPIs answer
// one-sided calls on such a window by loads and stores. What it gives is lower memory and does not
// outlive this process; the application's lies in the upper window, at the same address for ever.
// So pages are mapped twice, which takes whole pages: each segment of the real window is larger
// than the memory, and `before` says where in it that begins.
//
//   MPI_Win_allocate         the real window's pages, seen at the upper address as well, in place
//                            of private memory that holds the contents in an image
//   MPI_Win_allocate_shared  the pages of the upper half's block (shared_windows.h), put in place
//                            of the real window's
//
// Where that is impossible, or a member runs elsewhere, the memory is "far": MPI_Win_create over
// upper memory, whatever the kind. It may become near at a restart, and the other way round.
//
// A window of one member has no shared memory under Open MPI, but a block of the heap: its whole
// pages become shared for the life of the window, and are the heap's again before it is freed, for
// a forked child must not write to its parent's heap.
//
// Doors: words that tell who holds a lock, one for each member of a window, and its bells
// (bells.h), in memory that the ranks of a host share from MPI_Init on. Each rank gives away its
// own, and the number is the member's for the life of the window. What is in them is not saved, for
// each rank knows which locks it holds (epochs.h) and what it has heard.
//
// Invariant: Slot::near_base of Window::counters is an address in the real window from which
//            WindowMember::near_offset counts; it is used only if direct_ranks is not 0. Not
//            checked: hot path.
// Source: docs/decisions/0063-windows-share-pages.md.
#pragma once

#include "mpi/handles/objects.h"
#include "mpi/handles/window.h"

namespace fermata::mpi {

inline constexpr i64 kWindowAlignment = 16;
inline constexpr i64 kNoMemory = -1;  // WindowMember::size of a member that has not got any

/// After lower_start(), in all ranks: who runs on this host. Returns the error of asking them.
int find_neighbours();

/// True if all members of a communicator run on this host: the same answer in all of them.
bool are_neighbours(const Comm* comm);

/// Memory for MPI_Win_allocate: whole pages, so that others can take their place.
bool window_map(Window* window);

void window_unmap(const Window* window);

/// Before the real window is freed: its memory is the lower half's alone again.
void unshare_lone_member(const Window* window);

/// Begins the one epoch of a lower window. Nobody ever asks for a lock that excludes others, so
/// nothing has to be granted: MPICH would ask each member and wait for its answer.
/// Errors are returned to us: Open MPI's window would end the job.
int begin_lower_epoch(RealWin real);

/// Makes the real window of shared memory, in its epoch. *is_near stays false, in all members, if
/// it has to be a far one. Returns the error of agreeing on that.
int make_near(Window* window, bool* is_near);

// --- doors ---------------------------------------------------------------------------------------

i64* door_of(const Window* window, i32 target);

/// Takes one of this rank's doors for a new window; -1 if there is no room.
i64 door_take(u64 members);

void door_give_back(const Window* window);

/// Finds the doors of a window's members. Window::has_doors has the same value in all of them.
void find_doors(Window* window);

}  // namespace fermata::mpi
