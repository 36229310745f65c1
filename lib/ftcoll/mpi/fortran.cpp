// SPDX-License-Identifier: Apache-2.0
// The names of Fortran. They go through the C functions of this library.
//
// MPICH's own Fortran library calls the C names, so the calls of `mpif.h` and `mpi` come here by
// themselves, as do those of `mpi_f08` that have buffers; its other functions of `mpi_f08` call
// PMPI names. Open MPI's call PMPI names everywhere, and its `mpi_f08` calls names of its own.
#include <algorithm>
#include <vector>

#include "ftcoll_mpi.h"

namespace {

void set(MPI_Fint* ierror, int error) {
  if (ierror) *ierror = error;  // `mpi_f08` may leave it out
}

}  // namespace

extern "C" {

// call ftc_mark(comm, ierror)
void ftc_mark_(const MPI_Fint* comm, MPI_Fint* ierror) {
  set(ierror, ftc_mark(PMPI_Comm_f2c(*comm)));
}

// call ftc_last(comm, code, contributions, missing, room): `missing` has `room` elements
void ftc_last_(const MPI_Fint* comm, MPI_Fint* code, MPI_Fint* contributions, MPI_Fint* missing,
               const MPI_Fint* room) {
  std::vector<int32_t> ranks(static_cast<size_t>(std::max<MPI_Fint>(*room, 0)));
  ftc_ended ended = {};
  ended.missing = ranks.data();
  ended.room = static_cast<int32_t>(ranks.size());
  *code = ftc_last(PMPI_Comm_f2c(*comm), &ended);
  *contributions = ended.contributions;
  const int32_t told = std::min(ended.processes - ended.contributions, ended.room);
  std::copy_n(ranks.begin(), told, missing);
}

#ifdef OPEN_MPI

// Programs may have copies of these: only the symbols' addresses count.
extern int mpi_fortran_bottom_, mpi_fortran_in_place_;

// What compilers make of MPI_X, and what Open MPI's `mpi_f08` calls.
#define FTCOLL_FORTRAN(lower, upper, parameters)                                       \
  void mpi_##lower parameters __attribute__((weak, alias("ompi_" #lower "_f")));       \
  void mpi_##lower##_ parameters __attribute__((weak, alias("ompi_" #lower "_f")));    \
  void mpi_##lower##__ parameters __attribute__((weak, alias("ompi_" #lower "_f")));   \
  void MPI_##upper parameters __attribute__((weak, alias("ompi_" #lower "_f")));       \
  void ompi_##lower##_f parameters

static void* buffer_of(void* address) {
  if (address == &mpi_fortran_bottom_) return MPI_BOTTOM;
  return address == &mpi_fortran_in_place_ ? MPI_IN_PLACE : address;
}

#else

#define FTCOLL_FORTRAN(lower, upper, parameters) void mpi_##lower##_f08_ parameters

#endif

FTCOLL_FORTRAN(init, INIT, (MPI_Fint * ierror)) { set(ierror, MPI_Init(nullptr, nullptr)); }

FTCOLL_FORTRAN(init_thread, INIT_THREAD,
               (MPI_Fint * required, MPI_Fint* provided, MPI_Fint* ierror)) {
  int level = 0;
  set(ierror, MPI_Init_thread(nullptr, nullptr, *required, &level));
  *provided = level;
}

FTCOLL_FORTRAN(finalize, FINALIZE, (MPI_Fint * ierror)) { set(ierror, MPI_Finalize()); }

FTCOLL_FORTRAN(finalized, FINALIZED, (MPI_Fint * flag, MPI_Fint* ierror)) {
  int is_over = 0;
  set(ierror, MPI_Finalized(&is_over));
  *flag = is_over != 0;
}

#ifdef OPEN_MPI
// Here its `mpi_f08` calls a PMPI name.
void mpi_finalized_f08_(MPI_Fint* flag, MPI_Fint* ierror) { ompi_finalized_f(flag, ierror); }
#endif

FTCOLL_FORTRAN(comm_set_info, COMM_SET_INFO,
               (MPI_Fint * comm, MPI_Fint* info, MPI_Fint* ierror)) {
  set(ierror, MPI_Comm_set_info(PMPI_Comm_f2c(*comm), PMPI_Info_f2c(*info)));
}

FTCOLL_FORTRAN(barrier, BARRIER, (MPI_Fint * comm, MPI_Fint* ierror)) {
  set(ierror, MPI_Barrier(PMPI_Comm_f2c(*comm)));
}

#ifdef OPEN_MPI

FTCOLL_FORTRAN(bcast, BCAST,
               (char* buffer, MPI_Fint* count, MPI_Fint* type, MPI_Fint* root, MPI_Fint* comm,
                MPI_Fint* ierror)) {
  set(ierror, MPI_Bcast(buffer_of(buffer), *count, PMPI_Type_f2c(*type), *root,
                        PMPI_Comm_f2c(*comm)));
}

FTCOLL_FORTRAN(reduce, REDUCE,
               (char* send, char* receive, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
                MPI_Fint* root, MPI_Fint* comm, MPI_Fint* ierror)) {
  set(ierror, MPI_Reduce(buffer_of(send), buffer_of(receive), *count, PMPI_Type_f2c(*type),
                         PMPI_Op_f2c(*op), *root, PMPI_Comm_f2c(*comm)));
}

FTCOLL_FORTRAN(allreduce, ALLREDUCE,
               (char* send, char* receive, MPI_Fint* count, MPI_Fint* type, MPI_Fint* op,
                MPI_Fint* comm, MPI_Fint* ierror)) {
  set(ierror, MPI_Allreduce(buffer_of(send), buffer_of(receive), *count, PMPI_Type_f2c(*type),
                            PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)));
}

#endif

}  // extern "C"
