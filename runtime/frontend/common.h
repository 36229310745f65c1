// SPDX-License-Identifier: Apache-2.0
// The words every front end shares. Includes no MPI header: an ABI here is facts, not declarations.
#pragma once

#include <string.h>

#include "frontend/callbacks.h"
#include "halves/mpi_calls.gen.h"
#include "mpi/handles/scratch.h"
#include "mpi/handles/slots.h"

#define FERMATA_EXPORT __attribute__((visibility("default")))

namespace fermata::front {

// What an application's value becomes that its ABI does not know: canonical nowhere, so the lower
// half refuses it with the proper error class.
inline constexpr int kNoValue = -32000;

inline const void* in_place() { return reinterpret_cast<const void*>(abi::kInPlace); }

inline void make_predefined(Slot* slot, Kind kind, u32 canonical) {
  *slot = Slot{0, canonical, kind, mpi::kSlotLive | mpi::kSlotPredefined, nullptr, {}};
}

}  // namespace fermata::front
