// SPDX-License-Identifier: Apache-2.0
// The exported functions the generator does not write: they compute in the front end itself, or
// belong to one old interface each. A counted list: nothing joins it without a reason given here.
#pragma once

#include "frontend/calls.h"

namespace fermata::front {

inline int fail(int error, const char* function) { return core::raise(nullptr, error, function); }

// Callback of the standard's *_DUP_FN: the value is copied as it is.
inline int dup_attr(void* value_in, void* value_out, int* flag) {
  *static_cast<void**>(value_out) = value_in;
  *flag = 1;
  return 0;
}

}  // namespace fermata::front

// A wrapper MPI_X with its profiling name; the body is a plain function of the same signature.
#define FERMATA_BOTH(returns, name, params)                    \
  extern "C" FERMATA_EXPORT returns MPI_##name params          \
      __attribute__((weak, alias("PMPI_" #name)));             \
  extern "C" FERMATA_EXPORT returns PMPI_##name params

namespace fermata::front {

// Address arithmetic needs no MPI.
FERMATA_BOTH(i64, Aint_add, (i64 base, i64 disp)) { return base + disp; }
FERMATA_BOTH(i64, Aint_diff, (i64 addr1, i64 addr2)) { return addr1 - addr2; }

// A hint to profilers that are not there.
FERMATA_BOTH(int, Pcontrol, (int level, ...)) {
  (void)level;
  return 0;
}

// MPI-1's way to ask for an extent.
FERMATA_BOTH(int, Type_extent, (App<mpi::kDatatype> type, i64* extent)) {
  i64 lower = 0;
  if (extent == nullptr) return fail(abi::kErrArg, "MPI_Type_extent");
  int error = core::Type_get_extent(handle_in<mpi::kDatatype>(type), &lower, extent);
  return error == 0 ? 0 : fail(error, "MPI_Type_extent");
}
FERMATA_BOTH(int, Type_lb, (App<mpi::kDatatype> type, i64* bound)) {
  i64 extent = 0;
  if (bound == nullptr) return fail(abi::kErrArg, "MPI_Type_lb");
  int error = core::Type_get_extent(handle_in<mpi::kDatatype>(type), bound, &extent);
  return error == 0 ? 0 : fail(error, "MPI_Type_lb");
}
FERMATA_BOTH(int, Type_ub, (App<mpi::kDatatype> type, i64* bound)) {
  i64 lower = 0, extent = 0;
  if (bound == nullptr) return fail(abi::kErrArg, "MPI_Type_ub");
  int error = core::Type_get_extent(handle_in<mpi::kDatatype>(type), &lower, &extent);
  if (error != 0) return fail(error, "MPI_Type_ub");
  *bound = lower + extent;
  return 0;
}

// Statuses in C, Fortran and Fortran 2008 are the same bytes in both ABIs we speak.
FERMATA_BOTH(int, Status_c2f, (const AppStatus* from, int* to)) {
  memcpy(to, from, sizeof(AppStatus));
  return 0;
}
FERMATA_BOTH(int, Status_f2c, (const int* from, AppStatus* to)) {
  memcpy(to, from, sizeof(AppStatus));
  return 0;
}
FERMATA_BOTH(int, Status_c2f08, (const AppStatus* from, void* to)) {
  memcpy(to, from, sizeof(AppStatus));
  return 0;
}
FERMATA_BOTH(int, Status_f082c, (const void* from, AppStatus* to)) {
  memcpy(to, from, sizeof(AppStatus));
  return 0;
}
FERMATA_BOTH(int, Status_f082f, (const void* from, int* to)) {
  memcpy(to, from, sizeof(AppStatus));
  return 0;
}
FERMATA_BOTH(int, Status_f2f08, (const int* from, void* to)) {
  memcpy(to, from, sizeof(AppStatus));
  return 0;
}

// MPI-4.1's accessors: the fields are the application's own values already.
FERMATA_BOTH(int, Status_get_source, (const AppStatus* status, int* source)) {
  *source = status->source;
  return 0;
}
FERMATA_BOTH(int, Status_get_tag, (const AppStatus* status, int* tag)) {
  *tag = status->tag;
  return 0;
}
FERMATA_BOTH(int, Status_get_error, (const AppStatus* status, int* error)) {
  *error = status->error;
  return 0;
}
FERMATA_BOTH(int, Status_set_source, (AppStatus* status, int source)) {
  status->source = source;
  return 0;
}
FERMATA_BOTH(int, Status_set_tag, (AppStatus* status, int tag)) {
  status->tag = tag;
  return 0;
}
FERMATA_BOTH(int, Status_set_error, (AppStatus* status, int error)) {
  status->error = error;
  return 0;
}

}  // namespace fermata::front
