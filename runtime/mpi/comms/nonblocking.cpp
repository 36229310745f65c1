// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/nonblocking.h"

#include "frontend/callbacks.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/core_state.h"

namespace fermata::mpi {
namespace {

// Real handles of the two datatype arrays of an alltoallw, kept until it ends.
struct KeptTypes {
  RealDatatype* sends;
  RealDatatype* receives;
};
KeptTypes keep_types(Lengths lengths, CommSlot* comm, const void* sendbuf,
                     DatatypeSlot* const* sendtypes, DatatypeSlot* const* recvtypes, void** kept) {
  const TypeCounts n = count_types(lengths, comm);
  RealDatatype* const reals = arena_array<RealDatatype>(u64(n.send_room + n.receive_room));
  *kept = reals;
  (void)real_types(sendbuf == kInPlace ? nullptr : sendtypes, n.sends, reals, n.send_room);
  // One array for both stays one: MPICH looks for that.
  if (sendtypes == recvtypes && sendbuf != kInPlace && n.sends == n.receives &&
      n.send_room == n.receive_room)
    return KeptTypes{reals, reals};
  return KeptTypes{reals, real_types(recvtypes, n.receives, reals + n.send_room, n.receive_room)};
}

}  // namespace

TypeCounts count_types(Lengths lengths, CommSlot* comm) {
  TypeCounts counts{};
  lengths(comm, &counts.sends, &counts.receives);
  front::degree_counts(comm, &counts.send_room, &counts.receive_room);
  if (counts.send_room < counts.sends) counts.send_room = counts.sends;
  if (counts.receive_room < counts.receives) counts.receive_room = counts.receives;
  return counts;
}

RealDatatype* real_types(DatatypeSlot* const* types, int count, RealDatatype* reals, int room) {
  for (int i = 0; i < room; i++)
    reals[i] = types && i < count && types[i] ? types[i]->real() : state().lower.byte;
  return reals;
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Ialltoallw(const void* sendbuf, const int* sendcounts, const int* sdispls,
               DatatypeSlot* const* sendtypes, void* recvbuf, const int* recvcounts,
               const int* rdispls, DatatypeSlot* const* recvtypes, CommSlot* comm,
               RequestSlot** request) {
  return collective_begin(comm, request, [&](RealRequest* real, void** kept) {
    const KeptTypes types =
        keep_types(&front::peer_counts, comm, sendbuf, sendtypes, recvtypes, kept);
    return lower().Ialltoallw(sendbuf, sendcounts, sdispls, types.sends, recvbuf, recvcounts,
                              rdispls, types.receives, comm->real(), real);
  });
}
int Ineighbor_alltoallw(const void* sendbuf, const int* sendcounts, const i64* sdispls,
                        DatatypeSlot* const* sendtypes, void* recvbuf, const int* recvcounts,
                        const i64* rdispls, DatatypeSlot* const* recvtypes, CommSlot* comm,
                        RequestSlot** request) {
  return collective_begin(comm, request, [&](RealRequest* real, void** kept) {
    const KeptTypes types =
        keep_types(&front::degree_counts, comm, sendbuf, sendtypes, recvtypes, kept);
    return lower().Ineighbor_alltoallw(sendbuf, sendcounts, sdispls, types.sends, recvbuf,
                                       recvcounts, rdispls, types.receives, comm->real(), real);
  });
}

}  // namespace fermata::mpi::core
