// SPDX-License-Identifier: Apache-2.0
// Non-blocking collective calls. They count on the collective clock where they are begun; when all
// ranks are parked, every member has begun the same ones, so polling them ends them, and no image
// ever holds one in progress. Hence they need no recipe.
#pragma once

#include "mpi/objects/memory.h"

namespace fermata::mpi {

/// What a reduction needs until its end, where the operation is the application's: its function is
/// told the datatype.
struct Reduction {
  Slot* op = nullptr;
  Slot* datatype = nullptr;
};

/// Begins one non-blocking collective: `begin(real, kept)` makes the lower call; *kept is arena
/// memory the lower half reads until the end, or null. Real handles are looked up inside `begin`,
/// because the rank may park, and come back in another process, before its turn has come.
template <typename Begin>
int collective_begin(Slot* comm, Slot** handle, Begin begin, Reduction reduction = {}) {
  if (!live_comm(comm)) return kErrComm;
  CollectiveScope scope(comm, false);
  Slot* const slot = request_slot_new();
  void* kept = nullptr;
  const int error = begin(&slot->real, &kept);
  if (error) {
    arena_free(kept);
    request_slot_free(slot);
    return error;
  }
  Request* const request = request_of(slot);
  request_start(request, RequestKind::kCollective, RequestState::kActive);
  const bool calls_back = reduction.op && op_of(reduction.op);
  request->owns = kept != nullptr || calls_back;
  request->comm = comm;
  request->kept_until_done = kept;
  request->object = calls_back ? reduction.op : nullptr;
  if (calls_back) {
    request->datatype = reduction.datatype;
    op_ref(reduction.op);
    (void)type_ref(reduction.datatype);
  }
  *handle = slot;
  return kSuccess;
}

// How many datatypes an alltoallw has in its two arrays, and how many the lower half may read. Open
// MPI 4.1 reads as many as a communicator with a topology has neighbours, in MPI_Ialltoallw too.
struct TypeCounts {
  int sends, receives;
  int send_room, receive_room;
};
using Lengths = void (*)(Slot* comm, int* sends, int* receives);
inline TypeCounts count_types(Lengths lengths, Slot* comm) {
  TypeCounts counts{};
  lengths(comm, &counts.sends, &counts.receives);
  front::degree_counts(comm, &counts.send_room, &counts.receive_room);
  if (counts.send_room < counts.sends) counts.send_room = counts.sends;
  if (counts.receive_room < counts.receives) counts.receive_room = counts.receives;
  return counts;
}

/// Fills `reals` with real handles; a predefined one stands where the application has none.
inline u64* real_types(Slot* const* types, int count, u64* reals, int room) {
  for (int i = 0; i < room; i++)
    reals[i] = types && i < count && types[i] ? types[i]->real : state().lower_byte;
  return reals;
}

// Real handles of the two datatype arrays of an alltoallw, kept until it ends.
struct KeptTypes {
  u64* sends;
  u64* receives;
};
inline KeptTypes keep_types(Lengths lengths, Slot* comm, const void* sendbuf,
                            Slot* const* sendtypes, Slot* const* recvtypes, void** kept) {
  const TypeCounts n = count_types(lengths, comm);
  u64* const reals = arena_array<u64>(u64(n.send_room + n.receive_room));
  *kept = reals;
  (void)real_types(sendbuf == kInPlace ? nullptr : sendtypes, n.sends, reals, n.send_room);
  // One array for both stays one: MPICH looks for that.
  if (sendtypes == recvtypes && sendbuf != kInPlace && n.sends == n.receives &&
      n.send_room == n.receive_room)
    return KeptTypes{reals, reals};
  return KeptTypes{reals, real_types(recvtypes, n.receives, reals + n.send_room, n.receive_room)};
}

namespace core {

inline int Ialltoallw(const void* sendbuf, const int* sendcounts, const int* sdispls,
                      Slot* const* sendtypes, void* recvbuf, const int* recvcounts,
                      const int* rdispls, Slot* const* recvtypes, Slot* comm, Slot** request) {
  return collective_begin(comm, request, [&](u64* real, void** kept) {
    const KeptTypes types =
        keep_types(&front::peer_counts, comm, sendbuf, sendtypes, recvtypes, kept);
    return lower().Ialltoallw(sendbuf, sendcounts, sdispls, types.sends, recvbuf, recvcounts,
                              rdispls, types.receives, comm->real, real);
  });
}
inline int Ineighbor_alltoallw(const void* sendbuf, const int* sendcounts, const i64* sdispls,
                               Slot* const* sendtypes, void* recvbuf, const int* recvcounts,
                               const i64* rdispls, Slot* const* recvtypes, Slot* comm,
                               Slot** request) {
  return collective_begin(comm, request, [&](u64* real, void** kept) {
    const KeptTypes types =
        keep_types(&front::degree_counts, comm, sendbuf, sendtypes, recvtypes, kept);
    return lower().Ineighbor_alltoallw(sendbuf, sendcounts, sdispls, types.sends, recvbuf,
                                       recvcounts, rdispls, types.receives, comm->real, real);
  });
}

}  // namespace core
}  // namespace fermata::mpi
