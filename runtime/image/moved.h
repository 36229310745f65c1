// SPDX-License-Identifier: Apache-2.0
// Directories that have moved since the image was written (`restart --map OLD=NEW`).
#pragma once

#include "image/reader.h"

namespace fermata::image {

/// `from`: absolute, without a slash at its end, "" for the root; `to` likewise.
struct Move {
  const char* from;
  const char* to;
};

/// Replaces every path of the tables by where it is now, before anything reads them. Of several
/// moves that fit a path the one of the longest `from` holds. Allocates. Errors: errno.
Status move_paths(Reader& reader, const Move* moves, u32 count);

}  // namespace fermata::image
