// SPDX-License-Identifier: Apache-2.0
// The table of the application's threads. Each entry is filled by the thread itself, or by its
// creator before it runs; others read what is said to hold while it stands.
//
// Preconditions of find_thread and find_thread_by_id: the process itself, not a fork of it.
#pragma once

#include "base/types.h"

namespace fermata::launch {

enum class ThreadState : u32 {
  kFree,
  kReserved,  // not begun yet
  kLive,
  kStopped,   // stands, and may resume by itself
  kKept,      // stands until it is released: it has been counted
};
// What /proc/<pid>/task/<tid>/syscall said of a thread when it was last seen in a call.
struct CallSample {
  u64 number, arguments[6], stack, instruction;
};
struct Thread {
  ThreadState state;
  u32 round;       // while stopped: how many releases there had been before
  u32 tid;         // the kernel's
  u32 id;          // the application's: what `tid` was when the thread was made
  u64 clear_tid;   // address cleared when the thread ends; also where its libc keeps its id
  u64 frame;       // UserContext, while stopped
  u64 hold_stack;  // for the MPI thread in hold(): its stack pointer; 0 otherwise
  u64 fs_base;     // while stopped
  u64 robust_list, robust_bytes;  // while stopped: set_robust_list(2)
  u64 timer_slack_ns;             // while stopped; as only the thread itself can ask
  u32 death_signal;
  u32 changes;                    // while stopped: bits of process/undone.cpp
  CallSample sample;
  u64 asked;       // the checkpoint and release for which it was last asked to stop
  u64 held;        // what its mask has beyond what its program wants: threads/held_signals.cpp
  bool bound;      // by the program, to processors that it chose
  bool bare;       // made by clone(2) without thread-local storage of its own: never calls MPI
  u32 block;       // upper threads: index of the acquired TLS block; 0 = none
};
inline constexpr u32 kBareThread = 16;  // ImageThread::flags
inline constexpr u32 kThreadCapacity = 4096;
extern Thread threads[kThreadCapacity];  // the first is the main thread

inline ThreadState state_of(const Thread& thread) {
  ThreadState state;
  __atomic_load(&thread.state, &state, __ATOMIC_ACQUIRE);
  return state;
}
inline void set_state(Thread& thread, ThreadState state) {
  __atomic_store_n(&thread.state, state, __ATOMIC_RELEASE);
}
/// Nobody else changes the state of a thread that stands, but between these two.
inline bool change_state(Thread& thread, ThreadState from, ThreadState to) {
  return __atomic_compare_exchange_n(&thread.state, &from, to, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}
inline bool stands(const Thread& thread) { return state_of(thread) >= ThreadState::kStopped; }

Thread* find_thread(u32 tid);       // by the kernel's id; null if there is none
Thread* find_thread_by_id(u32 id);  // by the application's
/// Whether this is another process, which has a copy of the table, but only the thread that forked.
bool is_forked_child();

/// The process's first thread is there. In a fork that becomes a rank it is the only one.
void adopt_main_thread();
void forget_threads();

}  // namespace fermata::launch
