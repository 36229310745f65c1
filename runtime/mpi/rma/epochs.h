// SPDX-License-Identifier: Apache-2.0
// Epochs of one-sided communication, built on flushes, messages and counters (see windows.h).
//
//   fence              flush, barrier: what every member has begun is complete before any continues
//   post/start         each target tells the origin that it may begin (bells.h)
//   complete/wait      flush; each origin tells the target that it is done
//   lock, lock_all     counters of holders: shared ones in the low word, exclusive ones above
//
// Where all members are on one host each has a door (near_windows.h), changed by the processor's
// own atomic operations; lock_all is a shared lock of each. Elsewhere it has counter[0], and rank 0
// has counter[1] for who locks anything at all; they are changed by MPI_Fetch_and_op:
//
//                   counter[1] of rank 0                counter[0] of the target
//   exclusive lock  + exclusive, unless any shared      + exclusive, unless any other
//   shared lock     -                                   + shared, unless any exclusive
//   lock_all        + shared, unless any exclusive      -
//
// Who adds and finds that it may not takes its own additions back and tries again later. (MPI's
// compare-and-swap would do it in one step, but Open MPI 4.1's crashes on the own rank.) Between
// two tries it holds nothing: it may be stopped there, and the next try may find the other kind.
//
// Who waits for an exclusive lock says so in the topmost bits of the same words, and for a while
// nobody gets a shared one then: else ranks that poll with shared locks would keep it waiting for
// ever. Only for a while, because a rank that holds a shared lock may wait for one that asks for
// it. Before it stops for a checkpoint the one that waits takes that back.
//
// Invariant: a lock held is counted exactly once, and in Window::locks or all_locked of its holder,
//            from which a restart counts anew. Not checked: others hold locks in the same word.
#pragma once

#include "mpi/handles/window.h"

namespace fermata::mpi {

/// After a restart: counts the locks that this rank holds. Nobody else's are in their way.
int locks_take_again(const Window* window);

}  // namespace fermata::mpi
