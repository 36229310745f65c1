// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/persistent_collectives.h"

#include "frontend/callbacks.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/comms/comms.h"
#include "mpi/comms/nonblocking.h"
#include "mpi/comms/topology.h"
#include "mpi/gate/hooks.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/kept_arrays.h"
#include "mpi/handles/references.h"

namespace fermata::mpi {
namespace {

void let_go(Slot* slot) {
  if (!slot || !slot->object) return;
  if (slot->kind == kOp) op_unref(slot_as<kOp>(slot));
  else type_unref(slot_as<kDatatype>(slot));
}

/// Visits the duplicates of a communicator, in the same order on every member.
template <typename Visit>
void for_each_duplicate(const Comm* parent, Visit visit) {
  for (Comm *comm = state().comms.live, *next; comm; comm = next) {
    next = comm->next;
    if (comm->duplicate_of == parent) visit(comm);
  }
}

/// Which duplicates of a communicator are idle on every member, in the order of the visit.
/// Collective over `parent`, if it has any.
class IdleEverywhere {
 public:
  explicit IdleEverywhere(CommSlot* parent) {
    u32 count = 0;
    for_each_duplicate(comm_of(parent), [&](const Comm*) { count++; });
    // Across an intercommunicator a reduction tells each group the other's result alone.
    if (count == 0 || comm_of(parent)->remote_size >= 0) return;
    const u32 words = (count + 63) / 64;
    all_ = arena_array<u64>(words);
    u64* const mine = arena_array<u64>(words);
    for (u32 i = 0; i < words; i++) mine[i] = all_[i] = 0;
    u32 number = 0;
    for_each_duplicate(comm_of(parent), [&](const Comm* comm) {
      mine[number / 64] |= u64{comm->idle} << number % 64;
      number++;
    });
    int error;
    {
      const BlockingCall open;
      error = lower().Allreduce(mine, all_, int(words), slot_at<kDatatype>(abi::kUint64T)->real(),
                                slot_at<kOp>(abi::kBand)->real(), parent->real());
    }
    for (u32 i = 0; error && i < words; i++) all_[i] = 0;
    arena_free(mine);
  }
  ~IdleEverywhere() { arena_free(all_); }
  IdleEverywhere(const IdleEverywhere&) = delete;
  IdleEverywhere& operator=(const IdleEverywhere&) = delete;

  bool operator[](u32 number) const { return all_ && (all_[number / 64] >> number % 64 & 1); }

 private:
  u64* all_ = nullptr;
};

/// The datatypes of an alltoallw, sends first, null where none is looked at. *receives: where the
/// others begin.
TypeList list_types(Lengths lengths, CommSlot* comm, const void* sendbuf,
                    DatatypeSlot* const* sendtypes, DatatypeSlot* const* recvtypes, int* receives) {
  const TypeCounts n = count_types(lengths, comm);
  LowerScope scope;
  TypeList list;
  list.count = n.send_room + n.receive_room;
  list.types = arena_array<DatatypeSlot*>(u64(list.count));
  list.reals = arena_array<RealDatatype>(u64(list.count));
  for (i32 i = 0; i < list.count; i++) list.types[i] = nullptr;
  for (int i = 0; i < n.sends && sendtypes && sendbuf != kInPlace; i++)
    list.types[i] = sendtypes[i];
  *receives = n.send_room;
  for (int i = 0; i < n.receives && recvtypes; i++) list.types[*receives + i] = recvtypes[i];
  return list;
}
RealDatatype* look_up(const TypeList& list) {
  return real_types(list.types, list.count, list.reals, list.count);
}

}  // namespace

void keep_alive(Slot* slot) {
  if (!slot || !slot->object) return;
  if (slot->kind == kOp) op_ref(slot_as<kOp>(slot));
  else (void)type_ref(slot_as<kDatatype>(slot));
}

Comm* idle_duplicate(CommSlot* parent) {
  const IdleEverywhere idle(parent);
  Comm* found = nullptr;
  u32 number = 0;
  for_each_duplicate(comm_of(parent), [&](Comm* comm) {
    if (idle[number++] && !found) found = comm;
  });
  return found;
}

int take_duplicate(CommSlot* parent, CommSlot** own) {
  Comm* const from = live_comm(parent);
  if (!from) return kErrComm;
  Comm* found = nullptr;
  {
    CollectiveScope scope(parent);
    found = idle_duplicate(parent);
  }
  if (!found) {
    if (const int error = comm_duplicate(parent, own)) return error;
    found = comm_of(*own);
  }
  found->duplicate_of = from;
  found->idle = false;
  *own = found->slot;
  return kSuccess;
}

void end_duplicates(CommSlot* parent) {
  const IdleEverywhere idle(parent);
  Comm* first = nullptr;
  const auto keep_first = [&](Comm* comm) {
    if (!first) first = comm;
  };
  // From the beginning each time: ending one releases the core lock, and others may end theirs.
  for (u32 number = 0;; number++, first = nullptr) {
    for_each_duplicate(comm_of(parent), keep_first);
    if (!first) return;
    first->duplicate_of = nullptr;
    if (idle[number]) comm_discard(first->slot);
  }
}

void kept_collective_free(Request* request) {
  KeptCollective* const kept = request->kept_collective;
  for (Slot* slot : kept->used) let_go(slot);
  for (i32 i = 0; i < kept->types_count; i++) let_go(kept->types[i]);
  comm_of(kept->comm)->idle = true;
  arena_free(kept->types);
  arena_free(kept->reals);
  (void)kept_arrays_free(kept->arrays);
  arena_free(kept);
}

bool reduces_by_function(const Request* request) {
  if (request->kind == RequestKind::kCollective)
    return request->object && request->object->kind == kOp;
  if (request->kind != RequestKind::kPersistentCollective) return false;
  for (const Slot* used : request->kept_collective->used)
    if (used && used->kind == kOp && used->object) return true;
  return false;
}

int kept_collective_start(RequestSlot* slot) {
  Request* const request = request_of(slot);
  KeptCollective* const kept = request->kept_collective;
  count_collective(clock_of(kept->comm));
  const int error = kept->begin(kept, &slot->real());
  if (!error) request->state = RequestState::kActive;
  return error;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Alltoallw_init(const void* sendbuf, const int* sendcounts, const int* sdispls,
                   DatatypeSlot* const* sendtypes, void* recvbuf, const int* recvcounts,
                   const int* rdispls, DatatypeSlot* const* recvtypes, CommSlot* comm, InfoSlot*,
                   RequestSlot** request) {
  if (!live_comm(comm)) return kErrComm;
  int receives = 0;
  const TypeList types =
      list_types(&front::peer_counts, comm, sendbuf, sendtypes, recvtypes, &receives);
  return collective_init(comm, {}, request, [=](CommSlot* own, RealRequest* real) {
    RealDatatype* const reals = look_up(types);
    return lower().Ialltoallw(sendbuf, sendcounts, sdispls, reals, recvbuf, recvcounts, rdispls,
                              reals + receives, own->real(), real);
  }, types);
}
int Neighbor_alltoallw_init(const void* sendbuf, const int* sendcounts, const i64* sdispls,
                            DatatypeSlot* const* sendtypes, void* recvbuf, const int* recvcounts,
                            const i64* rdispls, DatatypeSlot* const* recvtypes, CommSlot* comm,
                            InfoSlot*, RequestSlot** request) {
  if (!live_comm(comm)) return kErrComm;
  int receives = 0;
  const TypeList types =
      list_types(&front::degree_counts, comm, sendbuf, sendtypes, recvtypes, &receives);
  return collective_init(comm, {}, request, [=](CommSlot* own, RealRequest* real) {
    RealDatatype* const reals = look_up(types);
    return lower().Ineighbor_alltoallw(sendbuf, sendcounts, sdispls, reals, recvbuf, recvcounts,
                                       rdispls, reals + receives, own->real(), real);
  }, types);
}

}  // namespace fermata::mpi::core
