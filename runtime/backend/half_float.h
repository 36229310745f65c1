// SPDX-License-Identifier: Apache-2.0
// The type of 16-bit floating point numbers, which the standard does not have: MPIX_C_FLOAT16 of
// MPICH and Intel MPI, and what mpi4py takes for it in Open MPI.
#pragma once

#include <dlfcn.h>

#include "backend/shim.gen.h"

namespace fermata::backend {

/// 0 if this MPI has none. To be called after MPI_Init.
inline RealDatatype half_float() {
#ifdef MPIX_C_FLOAT16
  return canonical<mpi::kDatatype>(MPIX_C_FLOAT16);
#elif defined OPEN_MPI
  // mpi.h does not name it, and where the compiler had no such type it is there, of no size.
  const auto type =
      reinterpret_cast<MPI_Datatype>(dlsym(RTLD_DEFAULT, "ompi_mpi_short_float"));
  int bytes = 0;
  const bool known = type != nullptr && MPI_Type_size(type, &bytes) == MPI_SUCCESS && bytes == 2;
  return known ? canonical<mpi::kDatatype>(type) : RealDatatype{};
#else
  return {};
#endif
}

/// The real handle of a predefined object by its kind and number; 0 if this MPI does not have it.
inline u64 known_object(u32 kind, u32 number) {
  return number == abi::kCFloat16 ? half_float().value : predefined(kind, number);
}

}  // namespace fermata::backend
