// SPDX-License-Identifier: Apache-2.0
// What this CPU can do, against what the program has chosen.
#pragma once

#include "base/text.h"
#include "base/types.h"

namespace fermata::launch {

void cpu_features(u64 (&out)[4]);
u32 xsave_layout(u64 components);
/// Names the features that were there and are missing here. Returns whether there are any.
bool missing_features(const u64 (&saved)[4], Message& names);

}  // namespace fermata::launch
