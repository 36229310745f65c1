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
  _exit(78);
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

inline const UpperCalls kUpperCalls = {.park = &mpi::park};

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
  launcher().register_upper(&kUpperCalls, gate);
}

}  // namespace fermata::front
