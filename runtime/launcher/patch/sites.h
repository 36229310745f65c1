// SPDX-License-Identifier: Apache-2.0
// The lower half runs on GS.
#pragma once

#include "base/types.h"

namespace fermata::launch {

/// Rewrites the FS prefixes of file bytes [offset, offset + bytes) mapped writable at `address`.
/// Ends the process if the file's sites are unknown or it was refused. Blocks: a file of which no
/// list is kept is looked through by the sites tool, a child.
void rewrite_sites(int fd, u64 offset, u64 address, u64 bytes);

}  // namespace fermata::launch
