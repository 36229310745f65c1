// SPDX-License-Identifier: Apache-2.0
// How long a poll loop keeps the processor to itself.
#pragma once

#include "base/types.h"

namespace fermata {

/// Counts the polls of one wait. Polls at full speed first; a rank that has waited longer offers
/// the processor to the ranks it may share it with.
class Backoff {
 public:
  /// Once between two polls. True: yield now.
  bool is_spent() { return FERMATA_UNLIKELY(++polls_ >= 512 && polls_ % 16 == 0); }

 private:
  u32 polls_ = 0;
};

}  // namespace fermata
