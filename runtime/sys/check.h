// SPDX-License-Identifier: Apache-2.0
// Invariants that are checked in release as well. One that does not hold ends the process at once,
// before what follows from it is saved in an image: a restart from the snapshot before loses an
// hour, a wrong image all.
//
// May be used wherever system calls may: nothing is allocated, no lock taken, no libc called.
#pragma once

#include "base/rank.gen.h"
#include "sys/sys.h"

namespace fermata::sys {

inline constexpr u32 kRankUnknown = ~0u;
/// Whose message it is, once somebody has said so. Each program of a rank has its own copy.
inline u32 checked_rank = kRankUnknown;

/// Says which invariant does not hold, and where. Exit status 70.
[[noreturn, gnu::cold, gnu::noinline]] inline void check_failed(const char* invariant,
                                                                const char* file, u64 line) {
  Message text;
  text << "fermata: ";
  if (checked_rank != kRankUnknown) text << "rank " << u64{checked_rank} << ": ";
  text << "internal error at " << file << ":" << line << ": it does not hold that " << invariant
       << "\n  hint: restart from the last snapshot, and report this line\n";
  say(text.data);
  exit_group(kExitLauncher);
}

}  // namespace fermata::sys

/// `invariant` completes "it does not hold that ...".
#define FERMATA_CHECK(holds, invariant)    \
  (__builtin_expect(bool(holds), true)     \
       ? static_cast<void>(0)              \
       : ::fermata::sys::check_failed(invariant, __FILE__, __LINE__))
