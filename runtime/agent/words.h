// SPDX-License-Identifier: Apache-2.0
// How the agent and the rank's threads see each other's words in struct Crossing.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "halves/crossing.h"

namespace fermata::agent {

template <class T>
void store(T& place, T value) {
  __atomic_store_n(&place, value, __ATOMIC_RELEASE);
}

template <class T>
T load(const T& place) {
  return __atomic_load_n(&place, __ATOMIC_ACQUIRE);
}

/// Whether a thread waits on a shared or a private futex is its own affair; the kernel keeps the
/// two apart, so both are woken.
inline void wake_waiters(u32* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, 0x7fff'ffff, nullptr, nullptr, 0);
  syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 0x7fff'ffff, nullptr, nullptr, 0);
}

inline void wake_rank() {
  __atomic_add_fetch(&crossing().wake, 1, __ATOMIC_ACQ_REL);
  wake_waiters(&crossing().wake);
}

inline Phase load_phase() {
  return Phase(__atomic_load_n(reinterpret_cast<const u32*>(&crossing().phase), __ATOMIC_ACQUIRE));
}

inline void store_phase(Phase phase) {
  __atomic_store_n(reinterpret_cast<u32*>(&crossing().phase), static_cast<u32>(phase),
                   __ATOMIC_RELEASE);
}

}  // namespace fermata::agent
