// SPDX-License-Identifier: Apache-2.0
// What is kept of the application's functions around checkpoints (callbacks.h).
#pragma once

#include <pthread.h>

#include "base/types.h"

namespace fermata::mpi {

// A function of the application around checkpoints (callbacks.h).
struct Callback {
  i32 where;  // FERMATA_ON_*
  void (*function)(int when, void* argument);
  void* argument;
  bool begun;  // its BEFORE has been called, and no end yet
};
struct Callbacks {
  static constexpr u32 kCapacity = 64;
  Callback list[kCapacity];
  u32 count;
  bool has_thread;
  pthread_t thread;
  pthread_mutex_t mutex;  // of all this; never held while a function runs
};
// The callbacks of one kind around one checkpoint.
struct CallbackRound {
  u32 count;     // callbacks of this kind
  u32 epoch;     // BEFORE has been called, or is being called, for this checkpoint; 0 = none
  u32 restarts;  // Crossing::restarts at that time
  u32 due;       // futex of the thread for callbacks: the checkpoint that waits for its BEFORE
  bool calling;
  bool in_use() const { return count != 0 || epoch != 0; }
};

}  // namespace fermata::mpi
