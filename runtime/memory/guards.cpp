// SPDX-License-Identifier: Apache-2.0
#include "memory/guards.h"

#include "sys/sys.h"

namespace fermata::memory {
namespace {

struct Scan {  // struct pm_scan_arg of linux/fs.h
  u64 size, flags, start, end, walked_to, found, found_count, pages_most;
  u64 inverted, wanted, any_of, told;
};
struct Found {  // struct page_region
  u64 start, end, categories;
};

}  // namespace

Mapping first_guard_part(int pagemap_fd, const Mapping& mapping) {
  Mapping part = mapping;
  Found found{};
  Scan scan{sizeof(Scan), 0, mapping.start, mapping.end, 0, sys::arg(&found),
                  1,            0, 0,             sys::kPageIsGuard,      0, sys::kPageIsGuard};
  const Result<u64> got =
      sys::call(SYS_ioctl, u64(pagemap_fd), sys::kPagemapScan, sys::arg(&scan));
  if (!got || got.value == 0 || found.start < mapping.start || found.end > mapping.end ||
      found.end <= found.start)
    return part;
  if (found.start > part.start) {
    part.end = found.start;
  } else {
    part.end = found.end;
    part.attributes |= kGuarded;
  }
  return part;
}

}  // namespace fermata::memory
