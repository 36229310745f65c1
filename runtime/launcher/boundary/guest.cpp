// SPDX-License-Identifier: Apache-2.0
#include "launcher/boundary/guest.h"

#include "sys/sys.h"

namespace fermata::launch {

u64 pass_on(u64 number, const u64 (&a)[6]) {
  return u64(arch::raw_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

bool is_readable(u64 address, u64 bytes) {
  // An invalid first argument, after the kernel has read 8 bytes, which lie within one page.
  constexpr u64 kNoSuchWay = 77;
  for (u64 at = address & ~u64(7); at < address + bytes; at += 8) {
    const Result<u64> tried = sys::call(SYS_rt_sigprocmask, kNoSuchWay, at, 0, 8);
    if (tried.error != sys::kEinval) return false;
  }
  return true;
}

}  // namespace fermata::launch
