// SPDX-License-Identifier: Apache-2.0
// Signals that are to save the job (FERMATA_SAVE_ON) do not kill a rank.
#pragma once

#include "image/reader.h"
#include "launcher/boundary/guest.h"
#include "launcher/ids/thread.h"
#include "sys/sys.h"

namespace fermata::launch {

/// At the start: which signals those are. What started this process may ignore them, the program
/// does not: they are at their defaults. A rank that is restored, and the process that the process
/// manager has started, hold them from here on. Preconditions: the main thread is in the table.
void note_held_signals();
u64 signals_to_hold();  // bits: what may ever be held here
/// The application has asked for MPI: this process holds them now.
void begin_holding();

/// A thread's signal mask as its program knows it. `mask`: the kernel's.
u64 shown_mask(const Thread& thread, u64 mask);
/// Blocks in `mask`, one that the program wants, what is held now, and notes what that adds.
void hold_in_mask(Thread& thread, u64& mask);
/// Likewise where a thread continues with the mask in `context`, as it was when it came.
void renew_held(Thread& thread, UserContext* context);
/// The calling thread, if its process holds signals; else null, also in a fork.
Thread* holding_thread();
u64 held_in_calls();  // bits for the mask of a call that takes one, by the calling thread
/// Signals that some thread would take if they were not held: the agent takes them.
u64 held_for_agent();
/// The mask that a program starts with which is executed now.
u64 mask_for_exec(const UserContext* context);

/// As long as this is there nobody else changes the action of a signal that may be held: the agent
/// does when a handler for one time has run, and the program may just then. Who makes one has all
/// signals blocked, and waits for no more than a few system calls of another one.
class ActionKept {
 public:
  explicit ActionKept(int signal);
  ~ActionKept();
  ActionKept(const ActionKept&) = delete;
  ActionKept& operator=(const ActionKept&) = delete;

 private:
  bool kept_;
};

/// Whether the agent is to know when the program's own handler of this signal begins.
bool is_told(int signal);
/// What the kernel is to have for an action that the program wants: for the default of a signal
/// that is held, a handler of ours.
void hide_default(int signal, sys::KernelAction& action);
bool hides_default(const sys::KernelAction& action);  // whether it is that handler; also of a child
const sys::KernelAction& hidden_default(int signal);  // 1 to 64: what the program has then
/// The program has set this action. context: of the trap; null: masks are renewed later.
void note_action(int signal, u64 handler, UserContext* context);

u64 trap_fork(u64 number, const u64 (&arguments)[6], UserContext* context);
/// kill(2) and its like: what a program sends to itself comes as it would have.
u64 trap_sending_call(Half half, u64 number, const u64 (&arguments)[6], UserContext* context);

/// In the writer's copy: masks in saved frames become the program's.
void show_masks();
/// Preconditions: the threads, and the actions. Their saved frames hold signals again.
void restore_held(const image::Reader& reader);

i32 heard();          // LauncherCalls::heard
void stop_holding();  // LauncherCalls::stop_holding

}  // namespace fermata::launch
