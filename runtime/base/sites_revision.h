// SPDX-License-Identifier: Apache-2.0
// The revision of the rules that FS prefixes are found by. The launcher knows it, too: what older
// rules found, or refused, is looked for again.
#pragma once

#include "base/types.h"

namespace fermata {

// Raise this when the rules change: results cached under another revision are computed again.
inline constexpr u32 kFinderRevision = 7;

}  // namespace fermata
