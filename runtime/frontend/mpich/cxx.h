// SPDX-License-Identifier: Apache-2.0
// What MPICH's C++ library (libmpichcxx.so.12, libmpicxx.so.12) asks of its C library beside MPI's
// own functions, and that the application keeps like the Fortran one (decision 0022).
#pragma once

#include "frontend/calls.h"

namespace fermata::front {

inline void cxx_call_op(void* call, void* fn, void* in, void* inout, int* len,
                        App<mpi::kDatatype> datatype) {
  using Call = void (*)(void*, void*, int, App<mpi::kDatatype>, void*);
  reinterpret_cast<Call>(call)(in, inout, *len, datatype, fn);
}

inline void cxx_call_errhandler(void* call, void* fn, Kind kind, void* handle, int* code) {
  const int which = kind == mpi::kComm ? 0 : kind == mpi::kFile ? 1 : 2;
  reinterpret_cast<void (*)(int, void*, int*, void*)>(call)(which, handle, code, fn);
}

// MPI::Op::Init and Create_errhandler say this of what they have just made.
extern "C" FERMATA_EXPORT void MPII_Op_set_cxx(int op, void* call) {
  mpi::OpSlot* const slot = handle_in<mpi::kOp>(op);
  if (slot->flags & mpi::kSlotPredefined) return;  // MPI_Op_create failed
  g_cxx_call_op = call;
  mpi::Op* const made = mpi::op_of(slot);
  made->fn = function_in(kCxxFunction, made->fn);
}

extern "C" FERMATA_EXPORT void MPII_Errhandler_set_cxx(int errhandler, void* call) {
  mpi::ErrhandlerSlot* const slot = handle_in<mpi::kErrhandler>(errhandler);
  if (!mpi::is_user_errhandler(slot)) return;
  g_cxx_call_errhandler = call;
  auto* const made = static_cast<mpi::Errhandler*>(slot->object);
  made->fn = function_in(kCxxFunction, made->fn);
}

}  // namespace fermata::front
