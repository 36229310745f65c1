// SPDX-License-Identifier: Apache-2.0
// What a mapping is beside its pages and its protection: the bits of ImageRegion::flags, how
// /proc/PID/smaps tells them (VmFlags, proc(5)), and what gives them to a mapping again.
#pragma once

#include "base/text.h"
#include "base/types.h"
#include "sys/linux.h"

namespace fermata::memory {

enum Attribute : u32 {
  kShared = 1 << 0,
  kFileBacked = 1 << 1,
  kByReference = 1 << 2,   // what the extents do not hold comes from the file
  kGrowsDown = 1 << 3,     // a stack
  kNoReserve = 1 << 4,
  kHugeTlb = 1 << 5,       // pages of the huge page pool
  kHugePages = 1 << 6,     // MADV_HUGEPAGE
  kNoHugePages = 1 << 7,
  kMergeable = 1 << 8,     // MADV_MERGEABLE
  kNotDumped = 1 << 9,     // MADV_DONTDUMP
  kSequential = 1 << 10,
  kRandom = 1 << 11,
  kLocked = 1 << 12,       // mlock(2)
  kLockedOnFault = 1 << 13,
  kNotInForks = 1 << 14,   // MADV_DONTFORK
  kWipedInForks = 1 << 15, // MADV_WIPEONFORK
  kMayWrite = 1 << 16,     // mprotect(2) would allow writing
  kGuarded = 1 << 17,      // MADV_GUARD_INSTALL
  kDroppable = 1 << 18,    // MAP_DROPPABLE
  kFollows = 1 << 19,      // private: pages that were never written continue to show the file
  kOfDevice = 1 << 20,     // registers or buffers: VM_IO, VM_PFNMAP
  kSealed = 1 << 21,       // mseal(2)
};

/// Those that fork(2) takes from the child, or because of which it takes the pages.
inline constexpr u32 kLostInForks = kLocked | kLockedOnFault | kNotInForks | kWipedInForks;

struct AttributeName {
  char name[3];
  u32 bit;
  u32 advice;  // madvise(2) that sets it; 0 = something else does
};
inline constexpr AttributeName kAttributeNames[] = {
    {"gd", kGrowsDown, 0}, {"nr", kNoReserve, 0}, {"ht", kHugeTlb, 0},
    {"hg", kHugePages, sys::kMadvHugePage}, {"nh", kNoHugePages, sys::kMadvNoHugePage},
    {"mg", kMergeable, sys::kMadvMergeable}, {"dd", kNotDumped, sys::kMadvDontDump},
    {"sr", kSequential, sys::kMadvSequential}, {"rr", kRandom, sys::kMadvRandom},
    {"lo", kLocked, 0}, {"lf", kLockedOnFault, 0}, {"dc", kNotInForks, sys::kMadvDontFork},
    {"wf", kWipedInForks, sys::kMadvWipeOnFork}, {"mw", kMayWrite, 0}, {"dp", kDroppable, 0},
    {"sl", kSealed, 0}, {"io", kOfDevice, 0}, {"pf", kOfDevice, 0},
};

/// The bits of a VmFlags line behind its colon: two letters each, separated by spaces.
inline u32 parse_vm_flags(const char* p) {
  u32 bits = 0;
  for (; *p; p++) {
    if (*p == ' ') continue;
    for (const AttributeName& known : kAttributeNames)
      if (p[0] == known.name[0] && p[1] == known.name[1]) bits |= known.bit;
    if (p[1]) p++;
  }
  return bits;
}

}  // namespace fermata::memory
