// SPDX-License-Identifier: Apache-2.0
// Signals belong to the application; two of them are ours.
#pragma once

#include "image/reader.h"
#include "image/writer.h"
#include "launcher/boundary/guest.h"

namespace fermata::launch {

u64 trap_sigaction(Half half, u64 signal, u64 action, u64 old, u64 set_bytes,
                   UserContext* context);
u64 trap_sigprocmask(Half half, u64 how, u64 set, u64 old, u64 set_bytes, UserContext* context);

/// From here on the agent is told when the handler that the program has for it begins.
void tell_of_handler(int signal);

void save_actions(image::Writer& writer);
/// Preconditions: the process's ids: handlers that are told a sender are entered through vdso.S.
void restore_actions(const image::Reader& reader);

}  // namespace fermata::launch
