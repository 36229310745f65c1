// SPDX-License-Identifier: Apache-2.0
#include "launcher/ids/thread.h"

#include "sys/sys.h"

namespace fermata::launch {

Thread threads[kThreadCapacity];

Thread* find_thread(u32 tid) {
  for (Thread& thread : threads)
    if (thread.state >= ThreadState::kLive && thread.tid == tid) return &thread;
  return nullptr;
}

Thread* find_thread_by_id(u32 id) {
  if (id == 0) return nullptr;
  for (Thread& thread : threads)
    if (thread.state >= ThreadState::kLive && thread.id == id) return &thread;
  return nullptr;
}

bool is_forked_child() { return sys::getpid() != threads[0].tid; }

void adopt_main_thread() {
  Thread& thread = threads[0];
  thread.tid = thread.id = sys::gettid();
  set_state(thread, ThreadState::kLive);
}

void forget_threads() {
  for (Thread& thread : threads) thread.state = ThreadState::kFree;
}

}  // namespace fermata::launch
