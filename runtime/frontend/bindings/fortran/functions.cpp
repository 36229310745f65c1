// SPDX-License-Identifier: Apache-2.0
// The generated functions of our libmpi_mpifh.so.40, and the tables they find handles in.
#include "frontend/bindings/fortran/functions.gen.h"

extern "C" {
int PMPI_Comm_test_inter(fermata::mpi::CommSlot* comm, int* flag);
fermata::mpi::CommSlot* PMPI_Comm_f2c(int);
fermata::mpi::DatatypeSlot* PMPI_Type_f2c(int);
fermata::mpi::RequestSlot* PMPI_Request_f2c(int);
fermata::mpi::OpSlot* PMPI_Op_f2c(int);
fermata::mpi::GroupSlot* PMPI_Group_f2c(int);
fermata::mpi::InfoSlot* PMPI_Info_f2c(int);
fermata::mpi::WinSlot* PMPI_Win_f2c(int);
fermata::mpi::FileSlot* PMPI_File_f2c(int);
fermata::mpi::ErrhandlerSlot* PMPI_Errhandler_f2c(int);
fermata::mpi::MessageSlot* PMPI_Message_f2c(int);
}

namespace fermata::fortran {

Slot* g_predefined[mpi::kKindCount][kNumbers];
int g_number[mpi::kFirstDynamic / 4];

namespace {

constexpr int kCommNull = 2;  // the other kinds' null handles are 0

template <Kind kind>
void fill(Handle<kind> (*from_number)(int)) {
  Slot* const null = from_number(kind == mpi::kComm ? kCommNull : 0);
  for (int number = 0; number < kNumbers; number++) {
    Slot* const slot = from_number(number);
    g_predefined[kind][number] = slot ? slot : null;
    if (slot) g_number[slot->index] = number;
  }
}

// After the front end's constructor, since this library is linked to it.
__attribute__((constructor)) void start() {
  fill<mpi::kComm>(PMPI_Comm_f2c);
  fill<mpi::kDatatype>(PMPI_Type_f2c);
  fill<mpi::kRequest>(PMPI_Request_f2c);
  fill<mpi::kOp>(PMPI_Op_f2c);
  fill<mpi::kGroup>(PMPI_Group_f2c);
  fill<mpi::kInfo>(PMPI_Info_f2c);
  fill<mpi::kWin>(PMPI_Win_f2c);
  fill<mpi::kFile>(PMPI_File_f2c);
  fill<mpi::kErrhandler>(PMPI_Errhandler_f2c);
  fill<mpi::kMessage>(PMPI_Message_f2c);
}

constexpr int kCart = 1, kGraph = 2, kDistGraph = 3;  // of this ABI

}  // namespace

int peers(mpi::CommSlot* comm) {
  int inter = 0, size = 0;
  if (PMPI_Comm_test_inter(comm, &inter) != 0) return 0;
  if (inter) {
    (void)PMPI_Comm_remote_size(comm, &size);
  } else {
    (void)PMPI_Comm_size(comm, &size);
  }
  return size;
}

int neighbours(mpi::CommSlot* comm, bool sends) {
  int topology = 0, count = 0, rank = 0, out = 0, weighted = 0;
  if (PMPI_Topo_test(comm, &topology) != 0) return 0;
  if (topology == kCart) {
    (void)PMPI_Cartdim_get(comm, &count);
    return 2 * count;
  }
  if (topology == kGraph) {
    (void)PMPI_Comm_rank(comm, &rank);
    (void)PMPI_Graph_neighbors_count(comm, rank, &count);
    return count;
  }
  if (topology != kDistGraph) return 0;
  (void)PMPI_Dist_graph_neighbors_count(comm, &count, &out, &weighted);
  return sends ? out : count;
}

}  // namespace fermata::fortran
