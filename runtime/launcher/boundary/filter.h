// SPDX-License-Identifier: Apache-2.0
// The seccomp filter: which system calls trap, and from where.
#pragma once

#include "base/types.h"

namespace fermata::launch {

/// What traps in a restarted process only.
struct Restarted {
  bool ids = false;      // calls that take or tell ids of processes or threads
  bool clocks = false;   // calls that tell the time of clocks with an offset, or wait for it
  bool helpers = false;  // waits for any child: children that were started again have new ids
};

/// From here on the calls trap; those that send one of `signals` (bits), and forks, if there are
/// any. Ends the process if the kernel refuses the filter.
void install_filter(const Restarted& restarted, u64 signals);

}  // namespace fermata::launch
