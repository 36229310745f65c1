// SPDX-License-Identifier: Apache-2.0
#include "memory/places.h"

#include "base/hash.h"
#include "base/text.h"
#include "sys/sys.h"

namespace fermata::memory {
namespace {

u64 mix_namespace(u64 hash, const char* link) {
  Text<64> name;
  return sys::readlink(link, name.data, sizeof name.data) ? hash_text(hash, name.data) : hash;
}

}  // namespace

u64 this_kernel() {
  char text[64];
  (void)sys::read_text("/proc/sys/kernel/random/boot_id", text, sizeof text);
  return hash_text(kHashStart, text);
}

u64 kernel_and_ipc() { return mix_namespace(this_kernel(), "/proc/self/ns/ipc"); }

u64 this_place() {
  char names[400] = {};  // struct utsname: the node's name is the second of 65 bytes each
  (void)sys::call(SYS_uname, sys::arg(names));
  return mix_namespace(hash_text(kernel_and_ipc(), names + 65), "/proc/self/ns/pid");
}

}  // namespace fermata::memory
