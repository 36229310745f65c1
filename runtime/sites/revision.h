// SPDX-License-Identifier: Apache-2.0
// Of the rules that sites are found by. The launcher knows it, too: what older rules found, or
// refused, is found again.
#pragma once

#include "base/types.h"

namespace fermata::sites {

// Raise this when the rules change: results cached under another revision are computed again.
inline constexpr u32 kFinderRevision = 7;

}  // namespace fermata::sites
