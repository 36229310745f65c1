// SPDX-License-Identifier: Apache-2.0
// Communicators: made, named, freed.
//
// A communicator's recipe is not the call that made it but what it is: an id all members share, its
// members as world ranks, its topology. That is enough to make it again (rebuild.h), and it does
// not grow with the history of the job.
//
// Ids: what is made by a collective call on a communicator is told apart by that one's id, by the
// number of the call on its clock, which all members count alike, and by the members. A hash of
// these is the id, and nobody has to tell it to anybody. Where the members' calls are on different
// communicators, the first member draws a number nobody else can draw (its world rank and a counter
// that is saved in the image) and tells the others in a broadcast on the new communicator.
//
// Invariant: all members of a live communicator agree on its id (not checked: that takes a
//            message; an error of telling it is the call's); no two communicators ever share one
//            (checked in comm_register, of those of a rank).
#pragma once

#include "mpi/comms/leaving.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi {

void comm_link(Comm* comm);

/// One communicator or port less that leads outside the job.
void connection_end();

/// The id of what the call that `parent` counted last makes: bits 63 and 62 are 0 and 1, as those
/// of no id that is drawn (agree_on_id) or of a group (clock_of_group).
u64 id_by_call(CommSlot* parent, const Comm* comm);

/// Gives a communicator its handle. One with processes outside the job is never saved: it has no
/// id to agree on, and nothing to count, for the others may not.
CommSlot* comm_register(Comm* comm, RealComm real, u64 id, ErrhandlerSlot* errhandler);

/// Registers a communicator the lower half has just made; every member calls this.
/// Sets *newcomm to the new handle, or to MPI_COMM_NULL if this rank is not a member.
/// `parent`: whose clock all members have counted for this call; null: they agree on an id.
/// `known`: its members, if that is known (of an intracommunicator, all of this job).
int comm_adopt(RealComm real, bool inter, ErrhandlerSlot* errhandler, CommSlot** newcomm,
               CommSlot* parent = nullptr, const Group* known = nullptr);

void comm_forget(CommSlot* slot);

/// The part that all constructors share: count on the parent, make the real one, adopt it, and let
/// `complete` describe what else it is before this rank can be stopped. `make` prepares what the
/// lower half's call takes, and releases the core lock around that call alone. `known`: of
/// comm_adopt().
template <typename Make, typename Complete>
int comm_construct_prepared(CommSlot* parent, bool inter, CommSlot** newcomm, Make make,
                            Complete complete, const Group* known = nullptr) {
  Comm* const from = live_comm(parent);
  if (!from) return kErrComm;
  CollectiveScope scope(parent);
  sweep_leaving();
  // Of the two groups that come together, each calls on a communicator of its own.
  const bool counts_alike = !from->outside && (!inter || from->remote_size >= 0);
  RealComm real{};
  int error = make(&real);
  if (!error)
    error = comm_adopt(real, inter, from->errhandler, newcomm, counts_alike ? parent : nullptr,
                       known);
  return error || !live_comm(*newcomm) ? error : complete(*newcomm);
}
template <typename Make>
int comm_construct_prepared(CommSlot* parent, bool inter, CommSlot** newcomm, Make make,
                            const Group* known = nullptr) {
  return comm_construct_prepared(
      parent, inter, newcomm, make, [](CommSlot*) { return int(kSuccess); }, known);
}

/// Likewise, where nothing has to be prepared: `make` is the lower half's call.
template <typename Make, typename Complete>
int comm_construct(CommSlot* parent, bool inter, CommSlot** newcomm, Make make, Complete complete,
                   const Group* known = nullptr) {
  const auto call = [&](RealComm* real) {
    const BlockingCall open;
    return make(real);
  };
  return comm_construct_prepared(parent, inter, newcomm, call, complete, known);
}
template <typename Make>
int comm_construct(CommSlot* parent, bool inter, CommSlot** newcomm, Make make) {
  return comm_construct(parent, inter, newcomm, make, [](CommSlot*) { return int(kSuccess); });
}

/// comm_construct for a duplicate, whose members are those of its parent.
template <typename Complete>
int comm_construct_duplicate(CommSlot* parent, CommSlot** newcomm, Complete complete) {
  const Comm* const from = live_comm(parent);
  if (!from) return kErrComm;
  const Group members{from->size, from->rank, from->local_members};
  const bool is_known = from->remote_size < 0 && !from->outside;
  return comm_construct(
      parent, from->remote_size >= 0, newcomm,
      [&](RealComm* real) { return lower().Comm_dup(parent->real(), real); }, complete,
      is_known ? &members : nullptr);
}

/// The largest value any member of a communicator passes. Every member calls it. Returns the error
/// class.
int largest_of_members(CommSlot* comm, int value, int* largest);

/// The largest error class any member passes, or that of asking them. Every member calls it.
int members_agree(CommSlot* comm, int error);

/// Frees a communicator that was made for an object which could not be made then. Every member
/// calls it, after members_agree().
void comm_discard(CommSlot* comm);

}  // namespace fermata::mpi
