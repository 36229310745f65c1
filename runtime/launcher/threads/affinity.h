// SPDX-License-Identifier: Apache-2.0
// What threads are bound to.
#pragma once

#include "image/reader.h"
#include "launcher/ids/thread.h"

namespace fermata::launch {

u64 trap_set_affinity(const u64 (&arguments)[6]);
void inherit_affinity(const Thread* creator, Thread& thread);

void save_affinity(const Thread& thread, image::ImageThread& out);
void save_given_processors(image::ImageHeader& out);
/// Of all threads. Preconditions: they exist. Says so where they cannot be bound as they were.
void restore_affinity(const image::Reader& reader);

}  // namespace fermata::launch
