// SPDX-License-Identifier: Apache-2.0
// Where the kernel puts what is mapped without an address: the lower half's data. It decides so
// when a program is executed, from the limit of the stack: with an unlimited one it leaves that
// five sixths of the address space and maps downwards from 0x1555'5555'4000, in the upper window.
// So the launcher executes itself once more with a smaller limit, and gives the process its own
// back, which the two programs, their threads and their children see. The upper half's stack is
// one of ours, and grows as far as the limit says at that time.
//
// A child that becomes a program without a launcher keeps the filter, which would take what lies in
// the windows for a rank's. Nobody could give it its limit back, so it gets the older layout, which
// grows upwards from between the windows.
#include "launcher/load/address_space.h"

#include "base/text.h"
#include "halves/layout.h"
#include "launcher/config.h"
#include "sys/sys.h"

namespace fermata::launch {
namespace {

// With a quarter of it, the kernel takes arguments as long as ever (_STK_LIM).
constexpr u64 kSmallLimit = 64 << 20;
constexpr const char* kOption = "--stack-limit";

/// Whether memory at a place of the kernel's choice keeps out of the windows. It grows downwards,
/// or upwards from between the launcher and the lower window (ADDR_COMPAT_LAYOUT).
bool keeps_out() {
  const Result<u64> probe =
      sys::mmap(0, kPageBytes, 0, sys::kMapPrivate | sys::kMapAnonymous | sys::kMapNoReserve);
  if (!probe) return true;
  (void)sys::munmap(probe.value, kPageBytes);
  return probe.value >= kLowerEnd || (probe.value >= kLauncherBase && probe.value < kLowerBase);
}

/// Returns only if the kernel did not start the launcher.
i32 execute_again(u64* initial_stack, const char* limit) {
  const u64 argc = initial_stack[0];
  char** const argv = reinterpret_cast<char**>(initial_stack + 1);
  const Result<u64> map = sys::mmap(0, page_ceil((argc + 3) * 8), sys::kProtRead | sys::kProtWrite,
                                    sys::kMapPrivate | sys::kMapAnonymous);
  if (!map) return map.error;
  const char** out = reinterpret_cast<const char**>(map.value);
  *out++ = argv[0];
  *out++ = kOption;
  *out++ = limit;
  for (u64 i = 1; i < argc; i++) *out++ = argv[i];
  const char* const self = "/proc/self/exe";
  return sys::call(SYS_execve, sys::arg(self), map.value, sys::arg(argv + argc + 1)).error;
}

}  // namespace

u64 lay_out_beside_windows() {
  constexpr u64 kQuery = 0xffff'ffff;
  constexpr u64 kLarge = u64(1) << 45;
  u64 limit[2] = {};
  (void)sys::call(SYS_prlimit64, 0, sys::kRlimitStack, 0, sys::arg(limit));
  const u64 own = sys::call(SYS_personality, kQuery).value;
  if (limit[0] >= kLarge) (void)sys::call(SYS_personality, own | sys::kAddrCompatLayout);
  return own;
}

void settle_address_space(u64* initial_stack) {
  u64 limit[2] = {};
  (void)sys::call(SYS_prlimit64, 0, sys::kRlimitStack, 0, sys::arg(limit));
  const char* const own = config.stack_limit;
  if (own[0]) {
    const char* digits = own;
    limit[0] = parse_decimal(digits);
    (void)sys::call(SYS_prlimit64, 0, sys::kRlimitStack, sys::arg(limit), 0);
  }
  if (keeps_out()) return;
  i32 error = 0;
  if (!own[0]) {
    Text<24> text;
    text << limit[0];
    limit[0] = kSmallLimit;
    const Result<u64> lowered = sys::call(SYS_prlimit64, 0, sys::kRlimitStack, sys::arg(limit), 0);
    error = lowered ? execute_again(initial_stack, text.data) : lowered.error;
  }
  die("the kernel maps memory where the program's belongs", "ulimit -s", error,
      "start it with a smaller limit of the stack");
}

}  // namespace fermata::launch
