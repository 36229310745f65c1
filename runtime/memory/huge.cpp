// SPDX-License-Identifier: Apache-2.0
#include "memory/huge.h"

#include "sys/sys.h"

namespace fermata::memory {
namespace {

// linux/userfaultfd.h
constexpr u64 kUserModeOnly = 1, kApi = 0xaa, kMissing = 1;
constexpr u64 kMissingHugePages = 1 << 4, kFailInstead = 1 << 7;  // UFFD_FEATURE_*
constexpr u64 kHandshake = 0xc018aa3f, kRegister = 0xc020aa00;    // UFFDIO_API, UFFDIO_REGISTER

struct Handshake {
  u64 api, features, ioctls;
};
struct Range {
  u64 start, bytes, mode, ioctls;
};

}  // namespace

NoNewPages::NoNewPages(const Mapping& mapping) {
  if (!(mapping.attributes & kHugeTlb)) return;
  const Result<u64> fd =
      sys::call(SYS_userfaultfd, u64(sys::kCloseOnExec) | u64(sys::kNonBlock) | kUserModeOnly);
  if (!fd) return;
  fd_ = int(fd.value);
  Handshake handshake{kApi, kMissingHugePages | kFailInstead, 0};
  Range range{mapping.start, mapping.bytes(), kMissing, 0};
  if (sys::call(SYS_ioctl, fd.value, kHandshake, sys::word(&handshake)))
    (void)sys::call(SYS_ioctl, fd.value, kRegister, sys::word(&range));
}

NoNewPages::~NoNewPages() {
  if (fd_ >= 0) (void)sys::close(fd_);
}

bool is_of_huge_pool(u64 start) {
  if (!sys::mprotect(start, kPageBytes, 0)) return true;
  (void)sys::mprotect(start, kPageBytes, sys::kProtRead);
  return false;
}

}  // namespace fermata::memory
