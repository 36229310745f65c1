// SPDX-License-Identifier: Apache-2.0
#include "mpi/comms/topology.h"

#include "halves/crossing.h"
#include "mpi/comms/comms.h"
#include "mpi/handles/arena.h"
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/core_state.h"
#include "mpi/handles/lower_errors.h"
#include "mpi/handles/objects.h"
#include "mpi/handles/table.h"
#include "mpi/objects/attributes.h"

namespace fermata::mpi {
namespace {

int load_cart(RealComm real, Topology* t) {
  int error = lower().Cartdim_get(real, &t->count[0]);
  if (error) return error;
  const u64 n = u64(t->count[0]);
  t->numbers[0] = arena_array<i32>(n);
  t->numbers[1] = arena_array<i32>(n);
  i32* const coords = arena_array<i32>(n);
  error = lower().Cart_get(real, t->count[0], t->numbers[0], t->numbers[1], coords);
  arena_free(coords);
  return error;
}

int load_graph(RealComm real, Topology* t) {
  const int error = lower().Graphdims_get(real, &t->count[0], &t->count[1]);
  if (error) return error;
  t->numbers[0] = arena_array<i32>(u64(t->count[0]));
  t->numbers[1] = arena_array<i32>(u64(t->count[1]));
  return lower().Graph_get(real, t->count[0], t->count[1], t->numbers[0], t->numbers[1]);
}

int load_dist_graph(RealComm real, Topology* t) {
  int weighted = 0;
  const int error =
      lower().Dist_graph_neighbors_count(real, &t->count[0], &t->count[1], &weighted);
  if (error) return error;
  for (int i = 0; i < 2; i++) {
    t->numbers[i] = arena_array<i32>(u64(t->count[i]));
    t->weights[i] = weighted ? arena_array<i32>(u64(t->count[i])) : nullptr;
  }
  return lower().Dist_graph_neighbors(
      real, t->count[0], t->numbers[0], weighted ? t->weights[0] : kUnweighted, t->count[1],
      t->numbers[1], weighted ? t->weights[1] : kUnweighted);
}

/// comm_construct for constructors that give their communicator a topology.
template <typename Make>
int comm_construct_topology(CommSlot* parent, bool inter, CommSlot** newcomm, Make make) {
  return comm_construct(parent, inter, newcomm, make, load_topology);
}

}  // namespace

int load_topology(CommSlot* comm) {
  Comm* const c = comm_of(comm);
  if (c->remote_size >= 0) return kSuccess;
  int kind = kUndefined;
  int error = lower().Topo_test(comm->real(), &kind);
  if (error || kind == kUndefined) return error;
  Topology* const t = arena_new<Topology>();
  t->kind = kind;
  c->topology = t;
  if (kind == kCart) return load_cart(comm->real(), t);
  if (kind == kGraph) return load_graph(comm->real(), t);
  return load_dist_graph(comm->real(), t);
}

int make_topology(const Topology* t, RealComm plain, RealComm* real) {
  const MpiCalls& mpi = lower();
  if (t->kind == kCart)
    return mpi.Cart_create(plain, t->count[0], t->numbers[0], t->numbers[1], 0, real);
  if (t->kind == kGraph)
    return mpi.Graph_create(plain, t->count[0], t->numbers[0], t->numbers[1], 0, real);
  const int* const in = t->weights[0] ? t->weights[0] : kUnweighted;
  const int* const out = t->weights[1] ? t->weights[1] : kUnweighted;
  return mpi.Dist_graph_create_adjacent(plain, t->count[0], t->numbers[0], in, t->count[1],
                                        t->numbers[1], out, slot_at<kInfo>(kInfoNull)->real(), 0,
                                        real);
}

int comm_duplicate(CommSlot* comm, CommSlot** newcomm) {
  return comm_construct_duplicate(comm, newcomm, load_topology);
}

}  // namespace fermata::mpi

namespace fermata::mpi::core {

int Comm_dup(CommSlot* comm, CommSlot** newcomm) {
  Comm* const from = live_comm(comm);
  if (!from) return kErrComm;
  if (const int error = comm_duplicate(comm, newcomm)) return error;
  const int code =
      attributes_copy(kComm, comm, from->attributes, &comm_of(*newcomm)->attributes);
  if (code) may_leak(Comm_free(newcomm));  // it becomes MPI_COMM_NULL
  return code;
}

int Cart_create(CommSlot* comm, int ndims, const int* dims, const int* periods, int reorder,
                CommSlot** newcomm) {
  return comm_construct_topology(comm, false, newcomm, [&](RealComm* real) {
    return lower().Cart_create(comm->real(), ndims, dims, periods, reorder, real);
  });
}
int Cart_sub(CommSlot* comm, const int* remain_dims, CommSlot** newcomm) {
  return comm_construct_topology(comm, false, newcomm, [&](RealComm* real) {
    return lower().Cart_sub(comm->real(), remain_dims, real);
  });
}
int Graph_create(CommSlot* comm, int nnodes, const int* index, const int* edges, int reorder,
                 CommSlot** newcomm) {
  return comm_construct_topology(comm, false, newcomm, [&](RealComm* real) {
    return lower().Graph_create(comm->real(), nnodes, index, edges, reorder, real);
  });
}
int Dist_graph_create(CommSlot* comm, int n, const int* sources, const int* degrees,
                      const int* destinations, const int* weights, InfoSlot*, int reorder,
                      CommSlot** newcomm) {
  return comm_construct_topology(comm, false, newcomm, [&](RealComm* real) {
    return lower().Dist_graph_create(comm->real(), n, sources, degrees, destinations, weights,
                                     slot_at<kInfo>(kInfoNull)->real(), reorder, real);
  });
}
int Dist_graph_create_adjacent(CommSlot* comm, int indegree, const int* sources,
                               const int* source_weights, int outdegree, const int* destinations,
                               const int* dest_weights, InfoSlot*, int reorder,
                               CommSlot** newcomm) {
  return comm_construct_topology(comm, false, newcomm, [&](RealComm* real) {
    return lower().Dist_graph_create_adjacent(comm->real(), indegree, sources, source_weights,
                                              outdegree, destinations, dest_weights,
                                              slot_at<kInfo>(kInfoNull)->real(), reorder, real);
  });
}

int Intercomm_merge(CommSlot* inter, int high, CommSlot** newcomm) {
  return comm_construct(inter, false, newcomm, [&](RealComm* real) {
    return lower().Intercomm_merge(inter->real(), high, real);
  });
}

}  // namespace fermata::mpi::core
