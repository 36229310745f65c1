// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/own_comms.h"

#include "mpi/comms/persistent_collectives.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"

namespace fermata::mpi {

int kept_duplicate(CommSlot* parent, Comm** found) {
  Comm* const from = comm_of(parent);
  *found = idle_duplicate(parent);
  if (*found) return kSuccess;
  RealComm real{};
  int error;
  {
    const BlockingCall open;
    error = lower().Comm_dup(parent->real(), &real);
  }
  CommSlot* slot = nullptr;
  const Group members{from->size, from->rank, from->local_members};
  if (!error) error = comm_adopt(real, false, from->errhandler, &slot, parent, &members);
  if (error) return error;
  *found = comm_of(slot);
  (*found)->duplicate_of = from;
  return kSuccess;
}

void own_comm_discard(CommSlot* comm) {
  if (comm_of(comm)->duplicate_of) comm_of(comm)->idle = true;
  else comm_discard(comm);
}

int own_comm_free(CommSlot* comm) {
  if (!comm_of(comm)->duplicate_of) return core::Comm_free(&comm);
  const LowerScope scope;
  comm_of(comm)->idle = true;
  return kSuccess;
}

}  // namespace fermata::mpi
