// SPDX-License-Identifier: Apache-2.0
// Names, nice, policies of threads; what prctl(2) sets.
#pragma once

#include "image/format.gen.h"
#include "launcher/ids/thread.h"

namespace fermata::launch {

void note_scheduling();                // at the start: what this process was given
void note_own_traits(Thread& thread);  // by the thread, when it stops
void thread_name(u32 pid, u32 tid, u8 (&out)[16]);

void save_traits(image::ImageHeader& out);  // as the main thread has seen them
void restore_traits(const image::ImageHeader& saved);
void save_scheduling(const Thread& thread, u32 pid, image::ImageThread& out);
/// Of the calling thread. Says so where it is not allowed here.
void restore_scheduling(const image::ImageThread& saved);

}  // namespace fermata::launch
