// SPDX-License-Identifier: Apache-2.0
// What the parts of our libmpi_cxx.so.40 share.
//
// The library stands in for Open MPI's, whose inlined half is compiled into the programs already.
// It is part of the application: it uses the C functions of the front end and nothing else of ours,
// and is saved and restored with the application's memory.
#pragma once

#include <mpi.h>

namespace fermata::cxx {

using AnyFunction = void();

// Says which function of the bindings cannot be answered, and ends the job.
[[noreturn]] void unsupported(const char* function, const char* why);

}  // namespace fermata::cxx

extern "C" {
void ompi_mpi_cxx_comm_throw_excptn_fctn(MPI_Comm* comm, int* code, ...);
MPI_Errhandler ompi_cxx_errhandler_create_comm(fermata::cxx::AnyFunction* function);
MPI_Errhandler ompi_cxx_errhandler_create_win(fermata::cxx::AnyFunction* function);
MPI_Errhandler ompi_cxx_errhandler_create_file(fermata::cxx::AnyFunction* function);
}
