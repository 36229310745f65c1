// SPDX-License-Identifier: Apache-2.0
// Collective calls of ranks that have no communicator of their own yet: MPI_Comm_create_group,
// MPI_Intercomm_create.
//
// They are counted on the clock of the group. Who waits in such a call relies on it that the others
// can be told that they owe it, and only a rank that has the clock can be. So the members of the
// group pass a barrier before it: each makes the clock, and continues when it has heard, directly
// or not, of all the others. What they send each other is counted, and asked for, like messages of
// the application (wait_edges.h): a rank can be stopped while it waits for others to come.
//
// In MPI_Intercomm_create neither group knows the other. Their leaders introduce them to each other
// and tell their own groups, all by messages of the same kind; the rest is a call of the group that
// both form.
//
// What the lower half sends in both goes over a duplicate of MPI_COMM_WORLD of ours. Open MPI 4.1
// sends with the application's tag: on the application's communicator its receives of any message,
// or a rank that drains, could take what was not meant for them.
//
// Source: Hensgen, Finkel and Manber, "Two Algorithms for Barrier Synchronization" (1988), 2.2: the
// dissemination barrier, here of messages.
//
// Invariant: when a call is counted on the clock of a group, all its members have that clock.
//            Not checked: no rank sees the others'. A barrier that fails ends the call.
#include "base/hash.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/comms/comms.h"
#include "mpi/gate/clock.h"
#include "mpi/gate/scopes.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"
#include "mpi/objects/groups.h"
#include "mpi/p2p/own_tags.h"
#include "mpi/p2p/p2p.h"
#include "mpi/p2p/sendrecv.h"

namespace fermata::mpi {
namespace {

/// Sends to and receives from a world rank. Blocks; a rank can be stopped in it.
int exchange_own(i32 to, const void* ours, u64 our_bytes, i32 from, void* theirs, u64 their_bytes,
                 i32 tag) {
  DatatypeSlot* const byte = slot_at<kDatatype>(kByte);
  CanonStatus status{};
  return core::Sendrecv(ours, int(our_bytes), byte, to, tag, theirs, int(their_bytes), byte, from,
                        tag, state().p2p.own_comm, &status);
}

/// True if all are ranks of the job and differ, and are members of `within` unless that is null.
bool can_form_barrier(const Group& group, const Comm* within) {
  enum : u8 { kMayCome = 1, kComes = 2 };
  const LowerScope scope;
  const i32 world = state().world.size;
  u8* const marks = arena_array<u8>(u64(world));
  __builtin_memset(marks, within ? 0 : kMayCome, u64(world));
  for (i32 i = 0; within && i < within->size; i++)
    if (within->local_members[i] < world) marks[within->local_members[i]] = kMayCome;
  bool can = true;
  for (i32 i = 0; i < group.size && can; i++) {
    can = group.ranks[i] < world && marks[group.ranks[i]] == kMayCome;
    if (can) marks[group.ranks[i]] = kComes;
  }
  arena_free(marks);
  return can;
}

/// Sets *clock to the clock of a group that this rank is in. Blocks until all members have come to
/// the call `which`; a rank can be stopped in it. Preconditions: can_form_barrier();
/// the gate is not held.
int group_barrier(const Group& group, u64 which, ClockEntry** clock) {
  {
    const LowerScope scope;
    *clock = clock_of_group(group.ranks, group.size);
  }
  const i32 tag = tag_of_barrier((*clock)->comm_id, which);
  int error = kSuccess;
  for (i32 distance = 1; !error && distance < group.size; distance *= 2) {
    const i32 to = (group.rank + distance) % group.size;
    const i32 from = (group.rank + group.size - distance) % group.size;
    error = exchange_own(group.ranks[to], nullptr, 0, group.ranks[from], nullptr, 0, tag);
  }
  return error;
}

// What a leader says of its group.
struct Introduction {
  u64 peer_id;  // with the tag: which call it stands in
  i32 tag;
  i32 size;
};
// What a leader has learnt about the other group, and tells its own.
struct OtherGroup {
  int error;
  bool same_job;  // if not, its leader has no world rank, and no checkpoint is possible
  i32 leader;     // world rank
  i32 size;
  i32 tag;        // of the leaders' messages
};

i32* ranks_array(i32 size) {
  const LowerScope scope;
  return arena_array<i32>(u64(size));
}
void ranks_free(i32* ranks) {
  const LowerScope scope;
  arena_free(ranks);
}

/// The leader's part: learns about the other group from its leader, and its world ranks, which are
/// the caller's to free. Blocks; a rank can be stopped in it.
int ask_leader(const Comm* local, CommSlot* peer, int remote_leader, int tag, OtherGroup* other,
               i32** members) {
  const Comm* const p = live_comm(peer);
  if (!p) return kErrComm;
  if (remote_leader < 0 || remote_leader >= peers_of(p)) return kErrRank;
  if (tag < 0) return kErrTag;
  const i32 leader = p->members[remote_leader];
  other->same_job = leader < state().world.size;
  if (!other->same_job) return kSuccess;
  other->leader = leader;
  other->tag = tag_of_barrier(p->id, u64(tag));
  const Introduction ours{p->id, tag, local->size};
  Introduction theirs{};
  const int error = exchange_own(leader, &ours, sizeof ours, leader, &theirs, sizeof theirs,
                                 other->tag);
  if (error) return error;
  if (theirs.peer_id != ours.peer_id || theirs.tag != ours.tag) return kErrComm;
  other->size = theirs.size;
  *members = ranks_array(theirs.size);
  return exchange_own(leader, local->local_members, u64(ours.size) * sizeof(i32), leader, *members,
                      u64(theirs.size) * sizeof(i32), other->tag);
}

/// A broadcast by messages, along a binomial tree: a rank can be stopped in it. Preconditions: no
/// member is outside the job.
int tell(CommSlot* comm, int root, void* data, u64 bytes) {
  const Comm* const c = comm_of(comm);
  DatatypeSlot* const byte = slot_at<kDatatype>(kByte);
  const int count = int(bytes);
  const i32 tag = tag_of_barrier(c->id, u64(root));
  const i32 own = (c->rank + c->size - root) % c->size;
  const auto member = [&](i32 i) { return c->local_members[(i + root) % c->size]; };
  CanonStatus status{};
  int error = kSuccess;
  i32 span = 1;  // of the subtree below this rank
  while (span < c->size && !(own & span)) span *= 2;
  if (own)
    error = core::Recv(data, count, byte, member(own - span), tag, state().p2p.own_comm, &status);
  while ((span /= 2) && !error)
    if (own + span < c->size)
      error = core::Send(data, count, byte, member(own + span), tag, state().p2p.own_comm);
  return error;
}

/// The leader tells its group. All members of the local communicator call it.
int tell_group(CommSlot* local, int leader, OtherGroup* other, i32** members) {
  const int error = tell(local, leader, other, sizeof *other);
  if (error || other->error || !other->same_job) return error ? error : other->error;
  if (!*members) *members = ranks_array(other->size);
  return tell(local, leader, *members, u64(other->size) * sizeof(i32));
}

/// Both groups as one, in the same order for all members. Its ranks are the caller's to free.
Group join_groups(const Comm* local, int local_leader, const OtherGroup& other,
                  const i32* members) {
  const bool we_first = local->local_members[local_leader] < other.leader;
  Group all{local->size + other.size, local->rank + (we_first ? 0 : other.size), nullptr};
  all.ranks = ranks_array(all.size);
  i32* const ours = all.ranks + (we_first ? 0 : other.size);
  i32* const theirs = all.ranks + (we_first ? local->size : 0);
  for (i32 i = 0; i < local->size; i++) ours[i] = local->local_members[i];
  for (i32 i = 0; i < other.size; i++) theirs[i] = members[i];
  return all;
}

/// A barrier of both groups. Sets *clock to theirs, or leaves it alone if some of them are
/// of another job: no checkpoint can be while they are connected.
int barrier_of_both(const Comm* local, int local_leader, const OtherGroup& other,
                    const i32* members, ClockEntry** clock) {
  for (i32 i = 0; i < other.size; i++)
    if (members[i] >= state().world.size) return kSuccess;
  const Group all = join_groups(local, local_leader, other, members);
  const int error =
      can_form_barrier(all, nullptr) ? group_barrier(all, u64(other.tag), clock) : int(kErrComm);
  ranks_free(all.ranks);
  return error;
}

}  // namespace
}  // namespace fermata::mpi

namespace fermata::mpi::core {
namespace {

int tag_of_text(const char* text) { return int(hash_text(kHashStart, text) & 0x3fff); }

}  // namespace

int Comm_create_group(CommSlot* comm, GroupSlot* group, int tag, CommSlot** newcomm) {
  const Group* const g = members_of(group);
  Comm* const from = live_comm(comm);
  if (!from || from->remote_size >= 0) return kErrComm;
  if (!g) return kErrGroup;
  if (tag < 0) return kErrTag;
  *newcomm = null_of<kComm>();
  if (g->rank == kUndefined) return kSuccess;  // collective over the group alone
  if (!can_form_barrier(*g, from)) return kErrGroup;
  ClockEntry* clock = nullptr;
  const i32 bridge_tag = tag_of_barrier(from->id, u64(tag));
  if (const int error = group_barrier(*g, u64(bridge_tag), &clock)) return error;
  LowerScope scope;
  count_collective(clock);
  RealComm real{};
  const int error = lower_comm(g->ranks, g->size, bridge_tag, &real);
  return error ? error : comm_adopt(real, false, from->errhandler, newcomm);
}

/// A group with processes of another job is told nothing: they may not be under Fermata, and only
/// what a leader says counts in the lower half.
int Intercomm_create(CommSlot* local, int local_leader, CommSlot* peer, int remote_leader, int tag,
                     CommSlot** newcomm) {
  const Comm* const from = live_comm(local);
  if (!from || from->remote_size >= 0) return kErrComm;
  if (local_leader < 0 || local_leader >= from->size) return kErrRank;
  const bool leads = from->rank == local_leader;
  OtherGroup other{};
  i32* members = nullptr;
  ClockEntry* clock = clock_of(local);
  if (leads) other.error = ask_leader(from, peer, remote_leader, tag, &other, &members);
  int error = from->outside ? other.error : tell_group(local, local_leader, &other, &members);
  if (!error && other.same_job && !from->outside)
    error = barrier_of_both(from, local_leader, other, members, &clock);
  ranks_free(members);
  if (error) return error;
  const LowerScope scope;
  count_collective(clock);
  RealComm real{};
  {
    const BlockingCall open;
    if (!leads || other.same_job)
      error = lower().Intercomm_create(local->real(), local_leader, state().lower.bridge,
                                       other.leader, other.tag, &real);
    else
      error = lower().Intercomm_create(local->real(), local_leader, peer->real(), remote_leader,
                                       tag, &real);
  }
  return error ? error : comm_adopt(real, true, from->errhandler, newcomm);
}

/// The members are ranks of this job: without sessions there are no other processes to name.
int Comm_create_from_group(GroupSlot* group, const char* text, InfoSlot*,
                           ErrhandlerSlot* errhandler, CommSlot** newcomm) {
  CommSlot* const world = front::predefined<kComm>(kCommWorld);
  const int error = Comm_create_group(world, group, tag_of_text(text), newcomm);
  if (error || !live_comm(*newcomm)) return error;
  return Comm_set_errhandler(*newcomm, errhandler);
}

int Intercomm_create_from_groups(GroupSlot* local, int local_leader, GroupSlot* remote,
                                 int remote_leader, const char* text, InfoSlot*,
                                 ErrhandlerSlot* errhandler, CommSlot** newcomm) {
  const Group* const other = members_of(remote);
  if (!other || remote_leader < 0 || remote_leader >= other->size) return kErrGroup;
  CommSlot* const world = front::predefined<kComm>(kCommWorld);
  const int tag = tag_of_text(text);
  CommSlot* own = nullptr;
  int error = Comm_create_group(world, local, tag, &own);
  if (error || !live_comm(own)) return error ? error : int(kErrGroup);
  error = Intercomm_create(own, local_leader, world, other->ranks[remote_leader], tag, newcomm);
  may_leak(Comm_free(&own));
  return error ? error : Comm_set_errhandler(*newcomm, errhandler);
}

}  // namespace fermata::mpi::core
