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
// Invariant: all members of a live communicator agree on its id; no two communicators ever share
//            one.
#pragma once

#include "mpi/objects/attributes.h"
#include "mpi/comms/comm_members.h"

namespace fermata::mpi {

void errhandler_ref(Slot* errhandler);    // errors.h
void errhandler_unref(Slot* errhandler);  // errors.h
void end_duplicates(Slot* parent);        // persistent_collectives.h
bool leave(Slot* comm);                   // leaving.h
void sweep_leaving();                     // leaving.h

inline constexpr u64 kWorldId = 1;
inline constexpr u64 kSelfId = 2;  // + world rank
inline constexpr u64 kOwnId = 0xffff'ffff;
inline constexpr u64 kOutsideId = ~u64{0};
inline constexpr u64 kFirstMemberShift = 32;
inline constexpr u64 kFirstMemberBias = 0x100;  // keeps made-up ids apart from the predefined ones

inline void comm_link(Comm* comm) {
  Core& core = state();
  comm->previous = nullptr;
  comm->next = core.comms;
  if (core.comms) core.comms->previous = comm;
  core.comms = comm;
}
inline void comm_unlink(Comm* comm) {
  (comm->previous ? comm->previous->next : state().comms) = comm->next;
  if (comm->next) comm->next->previous = comm->previous;
}

/// One communicator or port less that leads outside the job.
inline void connection_end() {
  if (--crossing().connections) return;
  u64 known = state().everyone;
  state().everyone = 0;
  if (known) (void)lower().Group_free(&known);
}

/// The id of what the call that `parent` counted last makes. Invariant: bits 63 and 62 are 0 and 1,
/// as those of no id that is drawn (agree_on_id) or of a group (clock_of_group).
inline u64 id_by_call(Slot* parent, const Comm* comm) {
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

/// All members agree on an id. Collective over the new communicator `real`.
inline u64 agree_on_id(u64 real, const Comm* comm) {
  u64 id = ((u64(u32(state().world_rank)) + kFirstMemberBias) << kFirstMemberShift) |
           ++state().next_comm_number;
  const int bytes = int(sizeof id);
  const BlockingCall open;
  if (comm->remote_size < 0) {
    (void)lower().Bcast(&id, bytes, state().lower_byte, 0, real);
    return id;
  }
  // The group with the smaller first member draws the number. Its root tells the other group, whose
  // root tells it back to those of the first group who did not draw.
  const bool draws = comm->local_members[0] < comm->members[0];
  const int root = comm->rank == 0 ? kRoot : kProcNull;
  (void)lower().Bcast(&id, bytes, state().lower_byte, draws ? root : 0, real);
  (void)lower().Bcast(&id, bytes, state().lower_byte, draws ? 0 : root, real);
  return id;
}

/// Gives a communicator its handle. One with processes outside the job is never saved: it has no
/// id to agree on, and nothing to count, for the others may not.
inline Slot* comm_register(Comm* comm, u64 real, u64 id, Slot* errhandler) {
  Slot* const slot = slot_new(kComm, comm);
  slot->real = real;
  slot->spare = reinterpret_cast<u64>(comm->outside ? state().unused_clock : clock_new(id));
  if (comm->outside) crossing().connections++;
  comm->id = id;
  comm->slot = slot;
  comm->errhandler = errhandler;
  if (errhandler) errhandler_ref(errhandler);
  comm_link(comm);
  return slot;
}

/// Registers a communicator the lower half has just made; every member calls this.
/// Sets *newcomm to the new handle, or to MPI_COMM_NULL if this rank is not a member.
/// `parent`: whose clock all members have counted for this call; null: they agree on an id.
/// `known`: its members, if that is known (of an intracommunicator, all of this job).
inline int comm_adopt(u64 real, bool inter, Slot* errhandler, Slot** newcomm,
                      Slot* parent = nullptr, const Group* known = nullptr) {
  if (real == state().lower_comm_null || real == 0) {
    *newcomm = null_of(kComm);
    return kSuccess;
  }
  Comm* const comm = known ? comm_describe_known(*known) : comm_describe(real, inter);
  if (!comm) return kErrIntern;
  const u64 id = comm->outside ? kOutsideId
                 : parent      ? id_by_call(parent, comm)
                               : agree_on_id(real, comm);
  *newcomm = comm_register(comm, real, id, errhandler);
  return kSuccess;
}

inline void topology_free(Topology* topology) {
  if (!topology) return;
  for (int i = 0; i < 2; i++) {
    arena_free(topology->numbers[i]);
    arena_free(topology->weights[i]);
  }
  arena_free(topology);
}

/// True if requests or matched messages still need it: MPI allows that, it then goes later.
inline bool comm_in_use(const Slot* comm) {
  bool used = false;
  for_each_live(kRequest, [&](Slot* slot) {
    const Request* const request = request_of(slot);
    if (needs_comm(request) && request->comm == comm) used = true;
  });
  for_each_live(kMessage, [&](Slot* slot) {
    if (static_cast<const UnexpectedMessage*>(slot->object)->comm->slot == comm) used = true;
  });
  return used;
}

inline void comm_destroy(Comm* comm) {
  if (comm->members != comm->local_members) arena_free(comm->members);
  arena_free(comm->local_members);
  slot_free(comm->slot);
  arena_free(comm);
}

/// Destroys those freed communicators that no request needs any more.
inline void sweep_dead_comms() {
  for (Comm** at = &state().dead_comms; *at;) {
    Comm* const comm = *at;
    if (comm_in_use(comm->slot)) {
      at = &comm->next;
    } else {
      *at = comm->next;
      comm_destroy(comm);
    }
  }
}

inline void comm_forget(Slot* slot) {
  sweep_dead_comms();
  Comm* const comm = comm_of(slot);
  clock_free(clock_of(slot));
  if (comm->outside) connection_end();
  if (state().parent == slot) state().parent = nullptr;
  comm_unlink(comm);
  while (UnexpectedMessage* const kept = comm->unexpected_first) {
    if (kept->state == UnexpectedState::kFilling) (void)unexpected_complete(kept);
    if (kept->state == UnexpectedState::kHeld) state().unexpected_held--;
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
    comm->next = state().dead_comms;
    state().dead_comms = comm;
    slot->spare = reinterpret_cast<u64>(state().unused_clock);
    return;
  }
  comm_destroy(comm);
}

inline Comm* live_comm(Slot* slot) {
  return is_null(slot, kCommNull) ? nullptr : comm_of(slot);
}

inline bool is_inter(Slot* comm) {
  const Comm* const c = live_comm(comm);
  return c && c->remote_size >= 0;
}

/// Of a rooted collective call: whether this rank is its root.
inline bool at_root(Slot* comm, int root) {
  const Comm* const c = live_comm(comm);
  return c && (c->remote_size >= 0 ? root == kRoot : root == c->rank);
}
/// What stands where a call reads nothing.
inline Slot* unread(Kind kind) {
  return kind == kOp ? slot_at(kOp, abi::kSum) : slot_at(kDatatype, kByte);
}

/// The part that all constructors share: count on the parent, make the real one, adopt it, and let
/// `complete` describe what else it is before this rank can be stopped. `make` prepares what the
/// lower half's call takes, and releases the core lock around that call alone. `known`: of
/// comm_adopt().
template <typename Make, typename Complete>
int comm_construct_prepared(Slot* parent, bool inter, Slot** newcomm, Make make, Complete complete,
                            const Group* known = nullptr) {
  Comm* const from = live_comm(parent);
  if (!from) return kErrComm;
  CollectiveScope scope(parent);
  sweep_leaving();
  // Of the two groups that come together, each calls on a communicator of its own.
  const bool counts_alike = !from->outside && (!inter || from->remote_size >= 0);
  u64 real = 0;
  int error = make(&real);
  if (!error)
    error = comm_adopt(real, inter, from->errhandler, newcomm, counts_alike ? parent : nullptr,
                       known);
  return error || !live_comm(*newcomm) ? error : complete(*newcomm);
}
template <typename Make>
int comm_construct_prepared(Slot* parent, bool inter, Slot** newcomm, Make make,
                            const Group* known = nullptr) {
  return comm_construct_prepared(
      parent, inter, newcomm, make, [](Slot*) { return int(kSuccess); }, known);
}

/// Likewise, where nothing has to be prepared: `make` is the lower half's call.
template <typename Make, typename Complete>
int comm_construct(Slot* parent, bool inter, Slot** newcomm, Make make, Complete complete,
                   const Group* known = nullptr) {
  const auto call = [&](u64* real) {
    const BlockingCall open;
    return make(real);
  };
  return comm_construct_prepared(parent, inter, newcomm, call, complete, known);
}
template <typename Make>
int comm_construct(Slot* parent, bool inter, Slot** newcomm, Make make) {
  return comm_construct(parent, inter, newcomm, make, [](Slot*) { return int(kSuccess); });
}

/// comm_construct for a duplicate, whose members are those of its parent.
template <typename Complete>
int comm_construct_duplicate(Slot* parent, Slot** newcomm, Complete complete) {
  const Comm* const from = live_comm(parent);
  if (!from) return kErrComm;
  const Group members{from->size, from->rank, from->local_members};
  const bool is_known = from->remote_size < 0 && !from->outside;
  return comm_construct(
      parent, from->remote_size >= 0, newcomm,
      [&](u64* real) { return lower().Comm_dup(parent->real, real); }, complete,
      is_known ? &members : nullptr);
}

/// The largest error class any member of a communicator passes. Every member calls it.
inline int members_agree(Slot* comm, int error) {
  int worst = error;
  const BlockingCall open;
  (void)lower().Allreduce(&error, &worst, 1, slot_at(kDatatype, kInt)->real,
                          slot_at(kOp, abi::kMax)->real, comm->real);
  return worst;
}

using LowerFree = int (*)(u64*);

/// Ends a communicator by this call of the lower half. Meanwhile the core lock is released, and
/// other threads must not take in messages of what is half gone.
inline int comm_end_lower(LowerFree MpiCalls::*end, Slot* comm) {
  comm_of(comm)->ending = true;
  int error;
  {
    const BlockingCall open;
    error = (lower().*end)(&comm->real);
  }
  comm_forget(comm);
  return error;
}

/// Frees a communicator that was made for an object which could not be made then. Every member
/// calls it, after members_agree().
inline void comm_discard(Slot* comm) { (void)comm_end_lower(&MpiCalls::Comm_free, comm); }

namespace core {

inline int Comm_rank(Slot* comm, int* rank) {
  const Comm* const c = comm_of(comm);
  if (FERMATA_UNLIKELY(c == nullptr)) return kErrComm;
  *rank = c->rank;
  return kSuccess;
}
inline int Comm_size(Slot* comm, int* size) {
  const Comm* const c = comm_of(comm);
  if (FERMATA_UNLIKELY(c == nullptr)) return kErrComm;
  *size = c->size;
  return kSuccess;
}
inline int Comm_remote_size(Slot* comm, int* size) {
  const Comm* const c = comm_of(comm);
  if (!c || c->remote_size < 0) return kErrComm;
  *size = c->remote_size;
  return kSuccess;
}
inline int Comm_test_inter(Slot* comm, int* flag) {
  const Comm* const c = comm_of(comm);
  if (!c) return kErrComm;
  *flag = c->remote_size >= 0;
  return kSuccess;
}
inline int Comm_group(Slot* comm, Slot** group) {
  LowerScope scope;
  const Comm* const c = comm_of(comm);
  if (!c) return kErrComm;
  *group = group_new(c->local_members, c->size);
  return kSuccess;
}
inline int Comm_remote_group(Slot* comm, Slot** group) {
  LowerScope scope;
  const Comm* const c = comm_of(comm);
  if (!c || c->remote_size < 0) return kErrComm;
  *group = group_new(c->members, c->remote_size);
  return kSuccess;
}
inline int Comm_compare(Slot* comm1, Slot* comm2, int* result) {
  const Comm* const a = comm_of(comm1);
  const Comm* const b = comm_of(comm2);
  if (!a || !b) return kErrComm;
  if (a == b) {
    *result = kIdent;
    return kSuccess;
  }
  if (a->outside || b->outside) {
    LowerScope scope;
    return lower().Comm_compare(comm1->real, comm2->real, result);
  }
  const Group ga{a->size, a->rank, a->local_members}, gb{b->size, b->rank, b->local_members};
  Slot sa{}, sb{};
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

inline int Comm_set_name(Slot* comm, const char* name) {
  LowerScope scope;
  Comm* const c = comm_of(comm);
  if (!c) return kErrComm;
  arena_free(c->name);
  c->name = text_copy(name);
  return kSuccess;
}
inline int Comm_get_name(Slot* comm, char* name, int* length) {
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

inline int Comm_create(Slot* comm, Slot* group, Slot** newcomm) {
  const Group* const g = members_of(group);
  if (!g) return kErrGroup;
  const auto make = [&](u64* real) {
    u64 lower_handle = 0;
    int error = lower_group(g->ranks, g->size, &lower_handle);
    if (!error) {
      const BlockingCall open;
      error = lower().Comm_create(comm->real, lower_handle, real);
    }
    if (lower_handle && g->size) (void)lower().Group_free(&lower_handle);
    return error;
  };
  const bool is_known = !is_inter(comm) && all_are_inside(*g);
  return comm_construct_prepared(comm, is_inter(comm), newcomm, make, is_known ? g : nullptr);
}

}  // namespace core

inline void own_buffer_end(OwnBuffer** place);  // buffers.h

inline int comm_end(LowerFree MpiCalls::*end, Slot** handle) {
  Slot* const comm = *handle;
  Comm* const c = live_comm(comm);
  if (!c || (comm->flags & kSlotPredefined)) return kErrComm;
  if (const int code = attributes_drop(kComm, comm, &c->attributes, true)) return code;
  own_buffer_end(&c->buffer);
  CollectiveScope scope(comm);
  sweep_leaving();
  if (end == &MpiCalls::Comm_free && leave(comm)) {
    *handle = null_of(kComm);
    return kSuccess;
  }
  if (!c->outside) {
    const BlockingCall open;
    (void)lower().Barrier(comm->real);  // see the second invariant of clock.h
  }
  end_duplicates(comm);
  const int error = comm_end_lower(end, comm);
  *handle = null_of(kComm);
  return error;
}

namespace core {

inline int Comm_free(Slot** handle) { return comm_end(&MpiCalls::Comm_free, handle); }
inline int Comm_disconnect(Slot** handle) { return comm_end(&MpiCalls::Comm_disconnect, handle); }

}  // namespace core
}  // namespace fermata::mpi
