// SPDX-License-Identifier: Apache-2.0
// Communicators with a topology, duplicates, and merged intercommunicators.
//
// Whatever call made it, a topology is read back from the lower half in its plainest form (dims and
// periods, index and edges, sources and destinations) and that is its recipe.
#pragma once

#include "mpi/handles/slots.h"

namespace fermata::mpi {

/// Reads the topology of a communicator that has just been made. The gate is held.
int load_topology(CommSlot* comm);

struct Topology {
  i32 kind;  // kCart, kGraph, kDistGraph
  i32 count[2];     // ndims | nnodes, nedges | indegree, outdegree
  i32* numbers[2];  // dims, periods | index, edges | sources, destinations
  i32* weights[2];  // of a distributed graph; null: unweighted
};

/// Makes a communicator with this topology and exactly these ranks from a plain one.
int make_topology(const Topology* t, RealComm plain, RealComm* real);

/// Makes a duplicate, without attributes.
int comm_duplicate(CommSlot* comm, CommSlot** newcomm);

}  // namespace fermata::mpi
