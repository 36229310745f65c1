// SPDX-License-Identifier: Apache-2.0
// Memory from the huge page pool. mincore(2) and pagemap know only the pages that this very process
// has touched, and fork hands none of the shared ones on: so all of it is read. Reading a page that
// does not exist would take one from the pool, for good, so that is forbidden meanwhile.
#pragma once

#include "memory/maps.h"

namespace fermata::memory {

/// While it lives, reading a page of the mapping that does not exist fails and does not make it, if
/// the kernel has userfaultfd(2) and lets us. Does nothing for other memory.
class NoNewPages {
 public:
  explicit NoNewPages(const Mapping& mapping);
  ~NoNewPages();
  NoNewPages(const NoNewPages&) = delete;
  NoNewPages& operator=(const NoNewPages&) = delete;

 private:
  int fd_ = -1;
};

/// Whether what is attached at `start` (System V) is of the pool: such memory cannot be split into
/// ordinary pages.
bool is_of_huge_pool(u64 start);

}  // namespace fermata::memory
