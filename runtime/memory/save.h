// SPDX-License-Identifier: Apache-2.0
// Saves the upper half's memory: which mappings, which of their pages. Runs in the forked child.
#pragma once

#include "base/result.h"
#include "base/text.h"
#include "image/writer.h"

namespace fermata::memory {

/// Adds what the child does not have as a copy of its own, and the job would change by continuing:
/// shared memory, and pages of the huge page pool. Errors: errno, with `why` saying what and where;
/// memory that cannot be saved is EPERM.
Status save_shared(image::Writer& writer, Message& why);

/// Adds every other upper mapping and its resident, non-zero pages. Comes after save_shared.
/// Errors: as there.
Status save_regions(image::Writer& writer, Message& why);

}  // namespace fermata::memory
