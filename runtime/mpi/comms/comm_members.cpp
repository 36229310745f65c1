// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/comm_members.h"

#include "mpi/handles/arena.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/objects/groups.h"

namespace fermata::mpi {
namespace {

/// World ranks of a group of the lower half; processes outside the job have the numbers after the
/// last rank. True in *outside if there are any.
int world_ranks_of(RealGroup group, i32 size, i32* world_ranks, bool* outside) {
  Core& core = state();
  i32* const ranks = arena_array<i32>(u64(size));
  for (i32 i = 0; i < size; i++) ranks[i] = i;
  const auto translate = [&](RealGroup into) {
    return lower().Group_translate_ranks(group, size, ranks, into, world_ranks);
  };
  const auto all_known = [&] {
    for (i32 i = 0; i < size; i++)
      if (world_ranks[i] == kUndefined) return false;
    return true;
  };
  RealGroup known{};
  int error = lower_everyone(&known);
  if (!error) error = translate(known);
  if (!error && !all_known()) {  // it is made larger, behind those that are there
    RealGroup larger{};
    error = lower().Group_union(known, group, &larger);
    if (!error) error = translate(larger);
    core.lower.everyone = larger;
  }
  if (known != core.lower.everyone) may_leak(lower().Group_free(&known));
  arena_free(ranks);
  for (i32 i = 0; i < size && !error; i++) {
    if (world_ranks[i] < core.world.size) continue;
    *outside = true;
    if (world_ranks[i] >= core.world.size + kOutsideRoom)
      world_ranks[i] = core.world.size + kOutsideRoom - 1;
  }
  return error;
}

}  // namespace

Comm* comm_describe(RealComm real, bool inter) {
  Comm* const comm = arena_new<Comm>();
  comm->remote_size = -1;
  RealGroup group{};
  int error = lower().Comm_rank(real, &comm->rank);
  if (!error) error = lower().Comm_size(real, &comm->size);
  if (!error) error = lower().Comm_group(real, &group);
  comm->local_members = arena_array<i32>(u64(comm->size));
  if (!error) error = world_ranks_of(group, comm->size, comm->local_members, &comm->outside);
  if (group) may_leak(lower().Group_free(&group));
  comm->members = comm->local_members;
  if (inter && !error) {
    error = lower().Comm_remote_size(real, &comm->remote_size);
    if (!error) error = lower().Comm_remote_group(real, &group);
    comm->members = arena_array<i32>(u64(comm->remote_size));
    if (!error) error = world_ranks_of(group, comm->remote_size, comm->members, &comm->outside);
    may_leak(lower().Group_free(&group));
  }
  return error ? nullptr : comm;
}

Comm* comm_describe_known(const Group& members) {
  Comm* const comm = arena_new<Comm>();
  comm->remote_size = -1;
  comm->rank = members.rank;
  comm->size = members.size;
  comm->members = comm->local_members = arena_copy(members.ranks, u64(members.size));
  return comm;
}
bool all_are_inside(const Group& group) {
  for (i32 i = 0; i < group.size; i++)
    if (group.ranks[i] < 0 || group.ranks[i] >= state().world.size) return false;
  return true;
}

}  // namespace fermata::mpi
