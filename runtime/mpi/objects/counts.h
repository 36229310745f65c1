// SPDX-License-Identifier: Apache-2.0
// How much a status holds: from its byte count and the recipe of the type, without the lower half.
#pragma once

#include "halves/mpi_calls.gen.h"
#include "mpi/handles/slots.h"

namespace fermata::mpi::core {

/// What MPI_Get_count_c says.
int Get_count_wide(const CanonStatus* status, Slot* datatype, i64* count);

}  // namespace fermata::mpi::core
