// SPDX-License-Identifier: Apache-2.0
// Canonical constants: those of the MPI-5 standard ABI under their own names, and a few of ours. A
// front end has translated the application's own values before it calls core.
#pragma once

#include "halves/mpi_calls.gen.h"

namespace fermata::mpi {

using namespace abi;

// The largest tag every supported MPI has on every network (the smallest bound known, libfabric
// over TCP). Announced instead of the lower half's own, because a restart may bring a smaller one.
inline constexpr i32 kTagUbPromised = 524287;

// Addresses with a meaning of their own.
inline void* const kInPlace = reinterpret_cast<void*>(abi::kInPlace);
inline int* const kUnweighted = reinterpret_cast<int*>(abi::kUnweighted);
inline int* const kWeightsEmpty = reinterpret_cast<int*>(abi::kWeightsEmpty);

}  // namespace fermata::mpi
