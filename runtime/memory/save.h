// SPDX-License-Identifier: Apache-2.0
// Saves the upper half's memory: which mappings, which of their pages. Runs in the forked child.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/writer.h"

namespace fermata::memory {

/// Adds every upper mapping and its resident, non-zero pages to the image.
/// Errors: errno, with `why` saying what and where; a mapping that cannot be saved is EPERM.
Status save_regions(image::Writer& writer, Message& why);

}  // namespace fermata::memory
