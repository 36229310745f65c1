// SPDX-License-Identifier: Apache-2.0
#include "memory/huge.h"

#include "sys/sys.h"

namespace fermata::memory {
namespace {

// linux/userfaultfd.h

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
      sys::call(SYS_userfaultfd, sys::kCloseOnExec | sys::kNonBlock | sys::kUffdUserModeOnly);
  if (!fd) return;
  fd_ = int(fd.value);
  Handshake handshake{sys::kUffdApi,
                      sys::kUffdFeatureMissingHugetlbfs | sys::kUffdFeatureSigbus, 0};
  Range range{mapping.start, mapping.bytes(), sys::kUffdioRegisterModeMissing, 0};
  if (sys::call(SYS_ioctl, fd.value, sys::kUffdioApi, sys::arg(&handshake)))
    (void)sys::call(SYS_ioctl, fd.value, sys::kUffdioRegister, sys::arg(&range));
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
