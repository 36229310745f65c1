// SPDX-License-Identifier: Apache-2.0
// After a restart: every MPI object is made again in the new lower half, from its recipe.
//
// Order: predefined objects, communicators, datatypes (children first), operations, windows, files,
// the buffer of MPI_Bsend, persistent requests, posted receives in the order they were posted.
//
// Communicators are made one after the other in ascending order of their ids, each by a call that
// is collective over its members alone. No rank can wait for ever: suppose some ranks are stuck,
// and let X be the communicator with the smallest id that is not finished. Every member of X is
// alive and lists X (all members agree at a safe state which communicators are live, clock.h), has
// finished all its communicators with smaller ids (X is the smallest unfinished one) and so is in
// the call for X or on its way there; hence X can be finished. The order is total and every rank
// sorts by the same numbers, so this repeats until none is left.
//
// Invariant: when rebuild() returns, every live slot of a kind that has real handles has one of
//            this lower half. Checked where it returns; of requests, where each is made.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// Sorts slots by the order their receives were posted in (heap sort: in place, no recursion).
void sort_by_order(RequestSlot** slots, u32 count);

void rebuild();

}  // namespace fermata::mpi
