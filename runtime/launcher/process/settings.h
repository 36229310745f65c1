// SPDX-License-Identifier: Apache-2.0
// What the process, and each of its threads, has told the kernel about itself.
#pragma once

#include "image/writer.h"
#include "launcher/ids/thread.h"

namespace fermata::launch {

void note_settings(u32 chosen_before);  // at the start: what it was given
u32 changed_settings();                 // what an exec hands on as chosen_before
void note_own_settings(const Thread& thread);  // by the thread, when it stops
void volunteer();  // of a writer: the kernel is to take it, not the job, if memory runs out

/// Bits of what the process, or any of its threads, has chosen itself. Preconditions: they stand.
u32 chosen_settings(u32 pid);
void save_settings(image::ImageHeader& out, u32 pid);
void save_thread_settings(const Thread& thread, u32 chosen, image::Writer& writer,
                          image::ImageThread& out);
/// Both say so where a setting is not allowed here.
void restore_settings(const image::ImageHeader& saved);
/// policy: the saved text. Preconditions of the second: the first; it is the calling thread's.
void prepare_thread_settings(const Thread& thread, const char* policy);
void restore_thread_settings(const Thread& thread, const image::ImageThread& saved);

}  // namespace fermata::launch
