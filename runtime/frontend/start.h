// SPDX-License-Identifier: Apache-2.0
// The first thing that runs of a front end: its constructor, before any code of the application.
//
// It finds out whether a launcher is there at all, has the lower half loaded, fills the predefined
// slots so that handles decode from the first MPI call on, and tells the launcher where our entry
// points are.
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "frontend/calls.h"

namespace fermata::front {

[[noreturn]] inline void refuse(const char* why) {
  ssize_t ignored = write(2, why, strlen(why));
  (void)ignored;
  _exit(kExitFrontEnd);
}

inline bool is_mapped(u64 address) {
  unsigned char residency;
  return mincore(reinterpret_cast<void*>(address), kPageBytes, &residency) == 0;
}

// The launcher's reservation may be there already.
inline void map_slots() {
  if (is_mapped(kSlots)) return;
  void* wanted = reinterpret_cast<void*>(kSlots);
  void* got = mmap(wanted, kSlotsBytesPerKind * mpi::kKindCount, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) refuse("fermata: the handle slots cannot be mapped at their fixed address\n");
}

/// What park() runs on where the application's stack may be too small: a restart makes every MPI
/// object anew on it.
inline u64 map_park_stack() {
  constexpr u64 kBytes = u64{8} << 20;
  char* const low =
      static_cast<char*>(mmap(nullptr, kPageBytes + kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0));
  if (low == MAP_FAILED || mprotect(low, kPageBytes, PROT_NONE) != 0)
    refuse("fermata: there is no memory for the stack of checkpoints\n");
  return reinterpret_cast<u64>(low) + kPageBytes + kBytes;
}

inline UpperCalls upper_calls = {.park = &mpi::park, .park_stack = 0};

__attribute__((constructor)) inline void start() {
  if (!is_mapped(kCrossing) || crossing().magic != kCrossingMagic) {
    refuse("fermata: this MPI library only works under the launcher; start the program with "
           "`fermata run` or `fermata exec`\n");
  }
  if (crossing().version != kCrossingVersion || launcher().version != kCrossingVersion) {
    refuse("fermata: launcher and MPI front end are of different versions; rebuild both\n");
  }
  launcher().load_lower();
  if (crossing().lower->mpi_calls_hash_low != kMpiCallsHash) {
    refuse("fermata: the back end was built from another version of the MPI table; run "
           "`fermata mpi add` again\n");
  }
  map_slots();
  for (const Canonical& entry : kCanonical) {
    make_predefined(mpi::slot_at(entry.kind, entry.number), entry.kind, entry.number);
  }
  abi_start();
  mpi::fill_interface(FERMATA_VERSION);
  i64 gate = reinterpret_cast<i64>(&tls_gate) - reinterpret_cast<i64>(__builtin_thread_pointer());
  upper_calls.park_stack = map_park_stack();
  launcher().register_upper(&upper_calls, gate);
}

__attribute__((destructor)) inline void end() { mpi::end_with_process(); }

}  // namespace fermata::front
