// SPDX-License-Identifier: Apache-2.0
// The application's open files: described for the image, reopened at restart.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/writer.h"

namespace fermata::files {

enum FileKind : u32 { kRegular = 1, kDirectory = 2, kDevice = 3, kStandard = 4, kDuplicate = 5 };

/// Adds every descriptor for which belongs(fd) holds. A descriptor that cannot be saved (a socket,
/// a pipe to another process, a deleted file) is EPERM, named in `why`. Blocks: no.
Status describe_files(image::Writer& writer, bool (*belongs)(int fd), Message& why);

/// Reopens one file under its number. `path` is from the image. Errors: errno, `why` names the
/// file.
Status reopen(const image::ImageFile& file, const char* path, Message& why);

}  // namespace fermata::files
