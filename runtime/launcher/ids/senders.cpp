// SPDX-License-Identifier: Apache-2.0
#include "launcher/ids/senders.h"

#include "halves/layout.h"
#include "launcher/patch/vdso.h"

namespace fermata::launch {
namespace {

struct Senders {  // vdso.S knows this layout
  u32 real, known;    // the process, to the kernel and to the application
  u64 handlers[64 + 1];  // of the application, by signal, that are entered through vdso.S
  HelperId helpers[kHelperCapacity + 1];  // of this process's children; ended by a zero
};
constexpr u64 kSenders = kVdsoTable + 0x800;
Senders& senders() { return *reinterpret_cast<Senders*>(kSenders); }
static_assert(kSenders + sizeof(Senders) <= kVdsoTable + kPageBytes);

}  // namespace

void tell_senders(u32 real, u32 known) {
  senders().real = real;
  senders().known = known;
  __builtin_memset(senders().helpers, 0, sizeof senders().helpers);
}

HelperId* helper_ids() { return senders().helpers; }

u64& told_handler(int signal) { return senders().handlers[signal]; }

}  // namespace fermata::launch
