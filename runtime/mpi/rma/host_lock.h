// SPDX-License-Identifier: Apache-2.0
// One group of ranks after the other, among those of a job on a host.
#pragma once

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/hash.h"
#include "frontend/callbacks.h"
#include "sys/sys.h"

namespace fermata::mpi {

/// Keeps the other groups of this job from making a window on this host meanwhile: Open MPI 4.1
/// names what it needs for one after the host, the job and the communicator's number, which may be
/// the same for groups without a common member. Rank 0 of the group takes the lock (on its own host
/// alone: locks on several could wait for each other in a circle), which is a name in unix(7)'s
/// abstract namespace: it goes with its holder, and nothing listens there. Waits for some ten
/// seconds at most.
class HostLock {
 public:
  /// `job`: what its ranks know it by.
  HostLock(bool wanted, const char* job) {
    if (!wanted) return;
    const Result<u64> made = sys::call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (!made) return;
    descriptor_ = int(made.value);
    const sockaddr_un name = name_of(job);
    for (int tries = 0; tries < kTries; tries++) {
      const Result<u64> taken = sys::call(SYS_bind, made.value, sys::arg(&name), sizeof name);
      if (taken || taken.error != EADDRINUSE) return;
      sys::sleep_ns(kPauseNs);
    }
  }
  ~HostLock() {
    if (descriptor_ >= 0) (void)sys::close(descriptor_);
  }
  HostLock(const HostLock&) = delete;
  HostLock& operator=(const HostLock&) = delete;

 private:
  static sockaddr_un name_of(const char* job) {
    u64 hash = hash_text(kHashStart, job);
    static constexpr char kPrefix[] = "\0fermata-window-";
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    __builtin_memcpy(name.sun_path, kPrefix, sizeof kPrefix);
    for (int digit = 0; digit < 16; digit++, hash >>= 4)
      name.sun_path[sizeof kPrefix - 1 + digit] = "0123456789abcdef"[hash & 15];
    return name;
  }

  static constexpr u64 kPauseNs = 200'000;
  static constexpr int kTries = 50'000;
  int descriptor_ = -1;
};

}  // namespace fermata::mpi
