// SPDX-License-Identifier: Apache-2.0
// An upper half without MPI: makes any program checkpointable by tests/launcher/null_lower.cpp.
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "halves/crossing.h"

namespace {

using namespace fermata;

__attribute__((tls_model("initial-exec"))) thread_local Gate gate;

void park(void* frame) {
  gate.depth++;
  Crossing& shared = crossing();
  while (__atomic_load_n(&shared.phase, __ATOMIC_ACQUIRE) != Phase::kRun) {
    if (__atomic_load_n(&shared.phase, __ATOMIC_ACQUIRE) == Phase::kSave)
      if (launcher().hold(frame) == kHoldRestarted)
        __atomic_store_n(&shared.rebuilding, 0u, __ATOMIC_RELEASE);
    usleep(100);
  }
  gate.depth--;
}

constexpr UpperCalls kCalls{park};

__attribute__((constructor)) void start() {
  crossing().mpi_tid = u32(syscall(SYS_gettid));
  u64 fs;
  asm("rdfsbase %0" : "=r"(fs));
  launcher().register_upper(&kCalls, i64(u64(&gate) - fs));
  unsetenv("LD_PRELOAD");
}

}  // namespace
