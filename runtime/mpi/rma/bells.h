// SPDX-License-Identifier: Apache-2.0
// What the members of a window tell each other in MPI_Win_post and MPI_Win_complete: that the
// origin may begin, that it is done. Where they have doors (near_windows.h) each is told by
// counters behind its door, one for each member that may ring and each kind; elsewhere by empty
// messages.
//
// To a checkpoint a ring is a message: it is counted when it is rung and when it is heard, a rank
// that waits for one says for whom (wait_edges.h), and while the ranks drain all that have been
// rung are heard and kept. What is kept is in the image and counts first, whatever the next process
// has.
//
// Invariant: a counter is changed by the one member that it is for; `heard` of it have been heard.
//            Not checked: another member's counter is its own.
// Source: docs/decisions/0064-posts-ring-bells.md.
#pragma once

#include "mpi/handles/objects.h"
#include "mpi/handles/window.h"

namespace fermata::mpi {

inline constexpr int kTagPost = 1, kTagComplete = 2;

/// Hears and keeps one, of whatever kind: what a parked rank takes in.
bool bell_keep(const Comm* comm, i32 from);

int tell_member(const Window* window, int tag, i32 to);

/// Waits until a member has told this rank.
int await_member(const Window* window, int tag, i32 from);

/// True if a member has told this rank; that is not taken.
bool member_has_told(const Window* window, int tag, i32 from);

}  // namespace fermata::mpi
