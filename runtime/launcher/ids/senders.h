// SPDX-License-Identifier: Apache-2.0
// What vdso.S has to know to tell signal handlers the sender by the id that the application knows.
// It lies in upper memory, in the vdso page, and is saved with it.
#pragma once

#include "base/types.h"

namespace fermata::launch {

/// From now on handlers are told the process id `known` where the kernel says `real`.
void tell_senders(u32 real, u32 known);

/// The ids of the children that a restart has started again, to the kernel and to the application.
/// The used ones come first, the next one is zero.
struct HelperId {
  u32 real, known;
};
inline constexpr u32 kHelperCapacity = 16;
HelperId* helper_ids();

/// The application's handler of a signal, 1 to 64, that is entered through vdso.S.
u64& told_handler(int signal);

}  // namespace fermata::launch
