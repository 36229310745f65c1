// SPDX-License-Identifier: Apache-2.0
// What each new lower half is asked for first, at the beginning of MPI and after a restart.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

/// What is the same at the first start and at a restart: predefined handles and private objects.
void lower_start();

}  // namespace fermata::mpi
