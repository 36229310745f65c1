// SPDX-License-Identifier: Apache-2.0
// One group of ranks after the other, among those of a host.
#pragma once

#include "base/types.h"
#include "sys/sys.h"

namespace fermata::mpi {

/// Keeps the other groups of this host from making a window meanwhile: Open MPI 4.1 names what it
/// needs for one after the host, the job and the communicator's number, which may be the same for
/// groups without a common member. flock(2) on a directory that all of them have. Rank 0
/// of the group takes it, for some ten seconds at most.
class HostTurn {
 public:
  explicit HostTurn(bool wanted) {
    if (!wanted) return;
    const Result<u64> place = sys::open("/dev/shm", sys::kReadOnly | sys::kCloseOnExec);
    if (!place) return;
    descriptor_ = int(place.value);
    for (int tries = 0; tries < kTries; tries++) {
      if (sys::call(SYS_flock, place.value, kLockExclusive | kLockNoWait)) return;
      sys::sleep_ns(kPauseNs);
    }
  }
  ~HostTurn() {
    if (descriptor_ >= 0) (void)sys::close(descriptor_);
  }
  HostTurn(const HostTurn&) = delete;
  HostTurn& operator=(const HostTurn&) = delete;

 private:
  static constexpr u64 kLockExclusive = 2, kLockNoWait = 4;  // LOCK_EX, LOCK_NB
  static constexpr u64 kPauseNs = 200'000;
  static constexpr int kTries = 50'000;
  int descriptor_ = -1;
};

}  // namespace fermata::mpi
