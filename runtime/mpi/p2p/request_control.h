// SPDX-License-Identifier: Apache-2.0
// What is done to a request besides waiting for it: looked at, given up, cancelled.
#pragma once

#include "base/types.h"

namespace fermata::mpi {

/// Ends those requests that the application has freed and that have finished by now. It looks at
/// all of them, so it is called when they have doubled.
void sweep_forgotten();

}  // namespace fermata::mpi
