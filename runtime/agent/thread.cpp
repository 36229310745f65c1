// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>

#include "agent/agent.h"

namespace fermata {

int start_lower_thread(void* (*entry)(void*), u64 stack_bytes) {
  // Signals are the application's; only the system call boundary's must reach this thread.
  sigset_t blocked, before;
  sigfillset(&blocked);
  sigdelset(&blocked, kSignalTrap);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, entry, nullptr);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

}  // namespace fermata
