// SPDX-License-Identifier: Apache-2.0
// The MPICH front end: one translation unit, so that a wrapper, the core's function and the
// crossing become one straight piece of code.
#include "frontend/common.h"
// The ABI's conversions come before the shared code written in their terms.
#include "frontend/mpich/abi.h"

#include "frontend/legacy.h"
#include "frontend/mpich/cxx.h"
#include "frontend/mpich/fortran.h"
#include "frontend/start.h"
#include "frontend/tool.h"

namespace fermata::front {

#include "frontend/wrappers.gen.h"
#include "frontend/mpich/extensions.gen.h"

// What MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN and MPI_WIN_DUP_FN are in MPICH's header.
extern "C" FERMATA_EXPORT int MPIR_Dup_fn(int, int, void*, void* in, void* out, int* flag) {
  return dup_attr(in, out, flag);
}

}  // namespace fermata::front
