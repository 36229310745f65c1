// SPDX-License-Identifier: Apache-2.0
// What a program asks about the standard ABI (MPI 5.0, 20.2). The ABIs that there are front ends
// for are not that one: its version is -1, and Fortran's side of it is not told.
#include "mpi/handles/calls.gen.h"
#include "mpi/handles/constants.h"
#include "mpi/handles/slots.h"
#include "mpi/handles/table.h"

namespace fermata::mpi::core {

int Abi_get_version(int* abi_major, int* abi_minor) {
  *abi_major = *abi_minor = -1;
  return kSuccess;
}

int Abi_get_info(InfoSlot** info) {
  if (const int error = Info_create(info)) return error;
  constexpr const char* kKeys[] = {"mpi_aint_size", "mpi_count_size", "mpi_offset_size"};
  for (const char* key : kKeys) (void)Info_set(*info, key, "8");
  return kSuccess;
}

int Abi_get_fortran_info(InfoSlot** info) {
  *info = null_of<kInfo>();
  return kSuccess;
}

}  // namespace fermata::mpi::core
