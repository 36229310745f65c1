// SPDX-License-Identifier: Apache-2.0
// Whether code or data belongs to the MPI library, for functions of this program that come before
// a library's of the same name.
#pragma once

#include <dlfcn.h>
#include <mpi.h>

namespace fermata::backend {

inline bool is_of_mpi(void* address) {
  static Dl_info mpi;
  static const bool found = dladdr(reinterpret_cast<void*>(&MPI_Finalize), &mpi) != 0;
  Dl_info at;
  return found && address && dladdr(address, &at) != 0 && at.dli_fbase == mpi.dli_fbase;
}

}  // namespace fermata::backend
