// SPDX-License-Identifier: Apache-2.0
// The application's threads, and with each what it alone has: registers, name, policy, settings.
#pragma once

#include "image/reader.h"
#include "image/writer.h"

namespace fermata::launch {

/// Preconditions: they stand. job_pid: the process they are of.
void save_threads(image::Writer& writer, u32 job_pid);
/// The main thread, which restores, becomes that of the image; the others are created, and wait in
/// front of their saved frames until the MPI objects are rebuilt. Ends the process without one.
void restore_threads(const image::Reader& reader);

/// The last step: continues where the MPI thread was saved.
[[noreturn]] void resume_main_thread(const image::ImageThread& saved);

}  // namespace fermata::launch
