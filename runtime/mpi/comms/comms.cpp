// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/comms.h"

#include "base/hash.h"
#include "base/text.h"
#include "frontend/callbacks.h"
#include "halves/crossing.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/comms/comm_members.h"
#include "mpi/comms/persistent_collectives.h"
#include "mpi/comms/queries.h"
#include "mpi/comms/topology.h"
#include "mpi/gate/clock.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/references.h"
#include "mpi/handles/requests.h"
#include "mpi/objects/attributes.h"
#include "mpi/objects/groups.h"
#include "mpi/p2p/buffers.h"
#include "mpi/p2p/unexpected.h"
#include "sys/check.h"

namespace fermata::mpi {
namespace {

constexpr u64 kFirstMemberShift = 32;
constexpr u64 kFirstMemberBias = 0x100;  // keeps made-up ids apart from the predefined ones
static_assert(kFirstMemberBias << kFirstMemberShift > kOwnId);

void comm_unlink(Comm* comm) {
  (comm->previous ? comm->previous->next : state().comms.live) = comm->next;
  if (comm->next) comm->next->previous = comm->previous;
}

/// All members agree on an id. Collective over the new communicator `real`. Returns the error
/// class.
int agree_on_id(RealComm real, const Comm* comm, u64* id) {
  *id = ((u64(u32(state().world.rank)) + kFirstMemberBias) << kFirstMemberShift) |
        ++state().comms.next_number;
  const int bytes = int(sizeof *id);
  const BlockingCall open;
  if (comm->remote_size < 0) return lower().Bcast(id, bytes, state().lower.byte, 0, real);
  // The group with the smaller first member draws the number. Its root tells the other group, whose
  // root tells it back to those of the first group who did not draw.
  const bool draws = comm->local_members[0] < comm->members[0];
  const int root = comm->rank == 0 ? kRoot : kProcNull;
  const int error = lower().Bcast(id, bytes, state().lower.byte, draws ? root : 0, real);
  return error ? error : lower().Bcast(id, bytes, state().lower.byte, draws ? 0 : root, real);
}

void topology_free(Topology* topology) {
  if (!topology) return;
  for (int i = 0; i < 2; i++) {
    arena_free(topology->numbers[i]);
    arena_free(topology->weights[i]);
  }
  arena_free(topology);
}

/// True if requests or matched messages still need it: MPI allows that, it then goes later.
bool comm_in_use(const CommSlot* comm) {
  bool used = false;
  for_each_live<kRequest>([&](RequestSlot* slot) {
    const Request* const request = request_of(slot);
    if (needs_comm(request) && request->comm == comm) used = true;
  });
  for_each_live<kMessage>([&](MessageSlot* slot) {
    if (static_cast<const UnexpectedMessage*>(slot->object)->comm->slot == comm) used = true;
  });
  return used;
}

void comm_free_memory(Comm* comm) {
  if (comm->members != comm->local_members) arena_free(comm->members);
  arena_free(comm->local_members);
  arena_free(comm);
}

void comm_destroy(Comm* comm) {
  slot_free(comm->slot);
  comm_free_memory(comm);
}

/// Destroys those freed communicators that no request needs any more.
void sweep_dead_comms() {
  for (Comm** at = &state().comms.dead; *at;) {
    Comm* const comm = *at;
    if (comm_in_use(comm->slot)) {
      at = &comm->next;
    } else {
      *at = comm->next;
      comm_destroy(comm);
    }
  }
}

using LowerFree = int (*)(RealComm*);

/// Ends a communicator by this call of the lower half. Meanwhile the core lock is released, and
/// other threads must not take in messages of what is half gone.
int comm_end_lower(LowerFree MpiCalls::*end, CommSlot* comm) {
  comm_of(comm)->ending = true;
  int error;
  {
    const BlockingCall open;
    error = (lower().*end)(&comm->real());
  }
  comm_forget(comm);
  return error;
}

int comm_end(LowerFree MpiCalls::*end, CommSlot** handle) {
  CommSlot* const comm = *handle;
  Comm* const c = live_comm(comm);
  if (!c || (comm->flags & kSlotPredefined)) return kErrComm;
  if (const int code = attributes_drop(kComm, comm, &c->attributes, true)) return code;
  own_buffer_end(&c->buffer);
  CollectiveScope scope(comm);
  sweep_leaving();
  if (end == &MpiCalls::Comm_free && leave(comm)) {
    *handle = null_of<kComm>();
    return kSuccess;
  }
  if (!c->outside) {  // see the second invariant of clock.h
    const BlockingCall open;
    if (const int error = lower().Barrier(comm->real())) return error;
  }
  end_duplicates(comm);
  const int error = comm_end_lower(end, comm);
  *handle = null_of<kComm>();
  return error;
}

}  // namespace

void comm_link(Comm* comm) {
  Core& core = state();
  comm->previous = nullptr;
  comm->next = core.comms.live;
  if (core.comms.live) core.comms.live->previous = comm;
  core.comms.live = comm;
}

void connection_end() {
  if (--crossing().connections) return;
  RealGroup known = state().lower.everyone;
  state().lower.everyone = {};
  if (known) may_leak(lower().Group_free(&known));
}

u64 id_by_call(CommSlot* parent, const Comm* comm) {
  u64 hash = hash_word(hash_word(kHashStart, comm_of(parent)->id), clock_of(parent)->seq);
  const bool inter = comm->remote_size >= 0;
  const bool first = !inter || comm->local_members[0] < comm->members[0];
  const auto add = [&hash](const i32* members, i32 size) {
    for (i32 i = 0; i < size; i++) hash = hash_word(hash, u32(members[i]));
  };
  if (first) add(comm->local_members, comm->size);
  if (inter) add(comm->members, comm->remote_size);
  if (!first) add(comm->local_members, comm->size);
  return (hash & ~(u64(3) << 62)) | u64(1) << 62;
}

CommSlot* comm_register(Comm* comm, RealComm real, u64 id, ErrhandlerSlot* errhandler) {
  for (const Comm* other = state().comms.live; other && !comm->outside; other = other->next)
    FERMATA_CHECK(other->id != id, "no two communicators share an id");
  CommSlot* const slot = slot_new<kComm>(comm);
  slot->real() = real;
  slot->clock = comm->outside ? state().gate.unused_clock : clock_new(id);
  if (comm->outside) crossing().connections++;
  comm->id = id;
  comm->slot = slot;
  comm->errhandler = errhandler;
  if (errhandler) errhandler_ref(errhandler);
  comm_link(comm);
  return slot;
}

int comm_adopt(RealComm real, bool inter, ErrhandlerSlot* errhandler, CommSlot** newcomm,
               CommSlot* parent, const Group* known) {
  if (real == state().lower.comm_null || !real) {
    *newcomm = null_of<kComm>();
    return kSuccess;
  }
  Comm* const comm = known ? comm_describe_known(*known) : comm_describe(real, inter);
  if (!comm) return kErrIntern;
  u64 id = comm->outside ? kOutsideId : parent ? id_by_call(parent, comm) : 0;
  if (const int error = id ? int(kSuccess) : agree_on_id(real, comm, &id)) {
    comm_free_memory(comm);
    return error;
  }
  *newcomm = comm_register(comm, real, id, errhandler);
  return kSuccess;
}

void comm_forget(CommSlot* slot) {
  sweep_dead_comms();
  Comm* const comm = comm_of(slot);
  clock_free(clock_of(slot));
  if (comm->outside) connection_end();
  if (state().comms.parent == slot) state().comms.parent = nullptr;
  comm_unlink(comm);
  while (UnexpectedMessage* const kept = comm->unexpected_first) {
    if (kept->state == UnexpectedState::kFilling) unexpected_await(kept);
    if (kept->state == UnexpectedState::kHeld) state().p2p.unexpected_held--;
    unexpected_unlink(kept);
    unexpected_free(kept);
  }
  if (comm->errhandler) errhandler_unref(comm->errhandler);
  comm->errhandler = nullptr;
  topology_free(comm->topology);
  comm->topology = nullptr;
  arena_free(comm->name);
  comm->name = nullptr;
  if (comm->info) (void)core::Info_free(&comm->info);
  comm->info = nullptr;
  if (comm_in_use(slot)) {  // its members and its slot are needed to count what still arrives
    comm->dead = true;
    comm->next = state().comms.dead;
    state().comms.dead = comm;
    slot->clock = state().gate.unused_clock;
    return;
  }
  comm_destroy(comm);
}

int largest_of_members(CommSlot* comm, int value, int* largest) {
  const BlockingCall open;
  return lower().Allreduce(&value, largest, 1, slot_at<kDatatype>(kInt)->real(),
                           slot_at<kOp>(abi::kMax)->real(), comm->real());
}

int members_agree(CommSlot* comm, int error) {
  int worst = error;
  const int failed = largest_of_members(comm, error, &worst);
  return failed ? failed : worst;
}

void comm_discard(CommSlot* comm) { may_leak(comm_end_lower(&MpiCalls::Comm_free, comm)); }

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Comm_group(CommSlot* comm, GroupSlot** group) {
  LowerScope scope;
  const Comm* const c = comm_of(comm);
  if (!c) return kErrComm;
  *group = group_new(c->local_members, c->size);
  return kSuccess;
}
int Comm_remote_group(CommSlot* comm, GroupSlot** group) {
  LowerScope scope;
  const Comm* const c = comm_of(comm);
  if (!c || c->remote_size < 0) return kErrComm;
  *group = group_new(c->members, c->remote_size);
  return kSuccess;
}
int Comm_compare(CommSlot* comm1, CommSlot* comm2, int* result) {
  const Comm* const a = comm_of(comm1);
  const Comm* const b = comm_of(comm2);
  if (!a || !b) return kErrComm;
  if (a == b) {
    *result = kIdent;
    return kSuccess;
  }
  if (a->outside || b->outside) {
    LowerScope scope;
    return lower().Comm_compare(comm1->real(), comm2->real(), result);
  }
  const Group ga{a->size, a->rank, a->local_members}, gb{b->size, b->rank, b->local_members};
  GroupSlot sa{}, sb{};
  sa.object = const_cast<Group*>(&ga);
  sb.object = const_cast<Group*>(&gb);
  (void)Group_compare(&sa, &sb, result);
  if ((a->remote_size < 0) != (b->remote_size < 0)) *result = kUnequal;
  if (*result != kUnequal && a->remote_size >= 0) {
    int remote = kUnequal;
    const Group ra{a->remote_size, kUndefined, a->members};
    const Group rb{b->remote_size, kUndefined, b->members};
    sa.object = const_cast<Group*>(&ra);
    sb.object = const_cast<Group*>(&rb);
    (void)Group_compare(&sa, &sb, &remote);
    if (remote > *result) *result = remote;
  }
  if (*result == kIdent) *result = kCongruent;
  return kSuccess;
}

int Comm_set_name(CommSlot* comm, const char* name) {
  LowerScope scope;
  Comm* const c = comm_of(comm);
  if (!c) return kErrComm;
  arena_free(c->name);
  c->name = text_copy(name);
  return kSuccess;
}
int Comm_get_name(CommSlot* comm, char* name, int* length) {
  const Comm* const c = comm_of(comm);
  const char* text = c && c->name ? c->name : "";
  if (c && !c->name && c->id == kWorldId) text = "MPI_COMM_WORLD";
  if (c && !c->name && comm->index == kCommSelf) text = "MPI_COMM_SELF";
  if (comm->index == kCommNull) text = "MPI_COMM_NULL";
  u64 n = text_length(text);
  if (n > kMaxObjectName - 1) n = kMaxObjectName - 1;
  __builtin_memcpy(name, text, n);
  name[n] = 0;
  *length = int(n);
  return kSuccess;
}

int Comm_create(CommSlot* comm, GroupSlot* group, CommSlot** newcomm) {
  const Group* const g = members_of(group);
  if (!g) return kErrGroup;
  const auto make = [&](RealComm* real) {
    RealGroup lower_handle{};
    int error = lower_group(g->ranks, g->size, &lower_handle);
    if (!error) {
      const BlockingCall open;
      error = lower().Comm_create(comm->real(), lower_handle, real);
    }
    if (lower_handle && g->size) may_leak(lower().Group_free(&lower_handle));
    return error;
  };
  const bool is_known = !is_inter(comm) && all_are_inside(*g);
  return comm_construct_prepared(comm, is_inter(comm), newcomm, make, is_known ? g : nullptr);
}

int Comm_free(CommSlot** handle) { return comm_end(&MpiCalls::Comm_free, handle); }
int Comm_disconnect(CommSlot** handle) { return comm_end(&MpiCalls::Comm_disconnect, handle); }

}  // namespace fermata::mpi::core
