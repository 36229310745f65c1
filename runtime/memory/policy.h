// SPDX-License-Identifier: Apache-2.0
// Memory policies (set_mempolicy(2), mbind(2)): on which nodes of the machine memory is to be. In
// an image they are text: the mode with its flags, then the set of nodes in words of 64 bits from
// the lowest, all in decimal ("32771 5").
#pragma once

#include "base/text.h"
#include "base/types.h"
#include "sys/sys.h"

namespace fermata::memory {

struct Policy {
  static constexpr u32 kWords = 16, kNodes = 64 * kWords;

  u32 mode = 0;  // MPOL_*; 0 = the default
  u64 nodes[kWords] = {};

  bool operator==(const Policy& other) const {
    for (u32 i = 0; i < kWords; i++)
      if (nodes[i] != other.nodes[i]) return false;
    return mode == other.mode;
  }
};

using PolicyText = Text<512>;

/// The policy of the mapping at `address`; of the calling thread without one. The default where the
/// kernel, or a container, does not tell.
inline Policy policy_of(u64 address = 0) {
  Policy found;
  if (!sys::call(SYS_get_mempolicy, sys::arg(&found.mode), sys::arg(found.nodes), Policy::kNodes,
                 address, address ? sys::kMpolFAddr : 0))
    return {};
  return found;
}

inline void write_policy(const Policy& policy, PolicyText& out) {
  u32 words = Policy::kWords;
  while (words && !policy.nodes[words - 1]) words--;
  out << policy.mode;
  for (u32 i = 0; i < words; i++) out << " " << policy.nodes[i];
}

inline Policy read_policy(const char* text) {
  Policy policy;
  policy.mode = u32(parse_decimal(text));
  for (u32 i = 0; i < Policy::kWords && *text == ' '; i++)
    policy.nodes[i] = parse_decimal(++text);
  return policy;
}

/// Without nodes, where there are none: some modes refuse an empty set.
inline bool set_policy(const Policy& policy) {
  const bool any = !(policy == Policy{policy.mode, {}});
  return bool(sys::call(SYS_set_mempolicy, policy.mode, any ? sys::arg(policy.nodes) : 0,
                        any ? Policy::kNodes : 0));
}
inline bool set_policy(u64 address, u64 bytes, const Policy& policy) {
  const bool any = !(policy == Policy{policy.mode, {}});
  return bool(sys::call(SYS_mbind, address, bytes, policy.mode, any ? sys::arg(policy.nodes) : 0,
                        any ? Policy::kNodes : 0, 0));
}

}  // namespace fermata::memory
