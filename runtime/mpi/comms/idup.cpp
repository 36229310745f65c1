// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/idup.h"

#include "mpi/comms/comms.h"
#include "mpi/comms/hints.h"
#include "mpi/comms/topology.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/requests.h"
#include "mpi/handles/table.h"
#include "mpi/handles/window.h"
#include "mpi/objects/attributes.h"

namespace fermata::mpi {
namespace {

/// A description of the duplicate, which is that of its parent.
Comm* describe_duplicate(const Comm* parent) {
  Comm* const comm = arena_new<Comm>();
  comm->rank = parent->rank;
  comm->size = parent->size;
  comm->remote_size = parent->remote_size;
  comm->outside = parent->outside;
  comm->local_members = arena_copy(parent->local_members, u64(parent->size));
  comm->members = comm->local_members;
  if (parent->remote_size >= 0)
    comm->members = arena_copy(parent->members, u64(parent->remote_size));
  comm->ending = true;
  return comm;
}

/// Begins it. The attributes go to the new communicator, or stay the caller's in an error.
int idup_begin(CommSlot* comm, Attribute* attributes, CommSlot** newcomm, RequestSlot** handle) {
  const CollectiveScope scope(comm, false);
  const Comm* const from = comm_of(comm);
  RequestSlot* const slot = request_slot_new();
  RealComm real{};
  if (const int error = lower().Comm_idup(comm->real(), &real, &slot->real())) {
    request_slot_free(slot);
    return error;
  }
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kCollective, RequestState::kActive);
  Comm* const made = describe_duplicate(from);
  const u64 id = from->outside ? kOutsideId : id_by_call(comm, made);
  *newcomm = comm_register(made, real, id, from->errhandler);
  made->attributes = attributes;
  request->object = *newcomm;
  request->owns = true;
  request->comm = comm;
  request->peer = kUndefined;
  request->kept_until_done = nullptr;
  *handle = slot;
  return kSuccess;
}

}  // namespace

void idup_finish(CommSlot* comm) {
  Comm* const c = comm_of(comm);
  if (!c || !c->ending) return;
  c->ending = false;
  if (load_topology(comm))
    fatal("the MPI library does not describe a duplicate of a communicator");
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Comm_idup(CommSlot* comm, CommSlot** newcomm, RequestSlot** handle) {
  *newcomm = null_of<kComm>();
  Comm* const from = live_comm(comm);
  if (!from) return kErrComm;
  Attribute* attributes = nullptr;
  int error = attributes_copy(kComm, comm, from->attributes, &attributes);
  if (!error) error = idup_begin(comm, attributes, newcomm, handle);
  if (error) (void)attributes_drop(kComm, comm, &attributes, false);
  return error;
}
int Comm_idup_with_info(CommSlot* comm, InfoSlot* info, CommSlot** newcomm, RequestSlot** handle) {
  const int error = Comm_idup(comm, newcomm, handle);
  return with_hints(error, *newcomm, info);
}

}  // namespace fermata::mpi::core
