// SPDX-License-Identifier: Apache-2.0
// The pool of TLS blocks of the lower half for threads of the application.
#pragma once

#include "launcher/ids/thread.h"

namespace fermata::launch {

/// LauncherCalls::acquire_tls: the calling thread gets a block, if it has none, and GS points at
/// it. May wait while the lower half makes one. Returns 0 or -errno: EAGAIN if it can make no more.
i32 acquire_tls();
/// The thread ends, and no longer calls the lower half: its block goes back to the pool.
void release_tls(Thread& thread);
/// LauncherCalls::donate_tls: the calling thread of the lower half gives its block, and sleeps.
[[noreturn]] void donate_tls();
/// The lower half's first block belongs to the main thread, whoever has had it loaded. Ends the
/// process if there is none for the calling thread then.
void leave_tls_to_main_thread();

}  // namespace fermata::launch
