// SPDX-License-Identifier: Apache-2.0
// The Open MPI front end: one translation unit, so that a wrapper, the core's function and the
// crossing become one straight piece of code.
#include "frontend/common.h"
// The ABI's conversions come before the shared code written in their terms.
#include "frontend/ompi/abi.h"

#include "frontend/legacy.h"
#include "frontend/ompi/cxx.h"
#include "frontend/ompi/fortran.h"
#include "frontend/start.h"
#include "frontend/tool.h"

namespace fermata::front {

#include "frontend/wrappers.gen.h"
#include "frontend/ompi/extensions.gen.h"

// Open MPI's predefined attribute callbacks are functions with names of their own.
#define FERMATA_DUP(name)                                                                  \
  extern "C" FERMATA_EXPORT int OMPI_C_MPI_##name(Slot*, int, void*, void* in, void* out,  \
                                                  int* flag) {                             \
    return dup_attr(in, out, flag);                                                        \
  }
#define FERMATA_NULL_COPY(name)                                                            \
  extern "C" FERMATA_EXPORT int OMPI_C_MPI_##name(Slot*, int, void*, void*, void*,         \
                                                  int* flag) {                             \
    *flag = 0;                                                                             \
    return 0;                                                                              \
  }
#define FERMATA_NULL_DELETE(name)                                                          \
  extern "C" FERMATA_EXPORT int OMPI_C_MPI_##name(Slot*, int, void*, void*) { return 0; }

FERMATA_DUP(DUP_FN)
FERMATA_DUP(COMM_DUP_FN)
FERMATA_DUP(TYPE_DUP_FN)
FERMATA_DUP(WIN_DUP_FN)
FERMATA_NULL_COPY(NULL_COPY_FN)
FERMATA_NULL_COPY(COMM_NULL_COPY_FN)
FERMATA_NULL_COPY(TYPE_NULL_COPY_FN)
FERMATA_NULL_COPY(WIN_NULL_COPY_FN)
FERMATA_NULL_DELETE(NULL_DELETE_FN)
FERMATA_NULL_DELETE(COMM_NULL_DELETE_FN)
FERMATA_NULL_DELETE(TYPE_NULL_DELETE_FN)
FERMATA_NULL_DELETE(WIN_NULL_DELETE_FN)

}  // namespace fermata::front
