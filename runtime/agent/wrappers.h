// SPDX-License-Identifier: Apache-2.0
// The programs between the rank's first process and the rank: a shell that runs a script, say, and
// waits for the MPI program in it.
#pragma once

#include "base/types.h"

namespace fermata::agent {

// A stopped job must not continue with the next line of its scripts. Ends the ancestors of this
// process up to `first`, the outermost one first, so that none sees another one end. Does nothing
// if `first` is no ancestor.
void end_wrappers(u32 first);

}  // namespace fermata::agent
