// SPDX-License-Identifier: Apache-2.0
// Children that a restart starts again.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/reader.h"
#include "image/writer.h"

namespace fermata::launch {

/// Whether it is one; then it is remembered for save_helpers(). In the image writer.
bool note_helper(u32 pid);
bool helper_holds_pipe(u64 inode);
/// Preconditions: the descriptors are described. Errors: EAGAIN while a helper is at work; EPERM.
Status save_helpers(image::Writer& writer, Message& why);
/// Preconditions: the program's descriptors are back. Ends the process if one cannot be started.
void start_helpers(const image::Reader& reader);
/// For a job that ends to be restarted: helpers must not tidy up behind it.
void end_helpers();

}  // namespace fermata::launch
