// SPDX-License-Identifier: Apache-2.0
// What the headers and the library of Open MPI's C++ bindings ask of libmpi.so.40.
#pragma once

#include "frontend/calls.h"

namespace fermata::front {

inline void cxx_call_op(void* call, void* fn, void* in, void* inout, int* len,
                        App<mpi::kDatatype> datatype) {
  using Call = void (*)(void*, void*, int*, App<mpi::kDatatype>*, void*);
  reinterpret_cast<Call>(call)(in, inout, len, &datatype, fn);
}

// Theirs are C functions (runtime/frontend/bindings/cxx).
inline void cxx_call_errhandler(void*, void*, Kind, void*, int*) {}

// MPI::Op::Init, inlined in C++ programs, calls this right after MPI_Op_create, whose user function
// was the intercept of the bindings' library.
extern "C" FERMATA_EXPORT void ompi_op_set_cxx_callback(mpi::OpSlot* op, void* function) {
  if (op == nullptr || (op->flags & mpi::kSlotPredefined)) return;  // MPI_Op_create failed
  mpi::Op* const made = mpi::op_of(op);
  g_cxx_call_op = made->fn;
  made->fn = function_in(kCxxFunction, function);
}

}  // namespace fermata::front
