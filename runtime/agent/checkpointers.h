// SPDX-License-Identifier: Apache-2.0
// What saves a rank: one of these, by the name that SAVE brings and `--checkpointer` has given. A
// further one is one more row of the table in checkpointers.cpp, and one more variant of
// control/types/src/checkpointer.rs, from where a restart learns what to do with what it leaves.
//
// The agent calls it from its own thread, for one checkpoint at a time:
//
//   begin                the rank is to be saved now
//   cut, until true      it has what the rank would change by continuing; only if `parked`
//   resume               all ranks have come so far; only if `parked`
//   finish, until true   everything is saved and on disk, or has failed
//
// give_up may come instead of any of the last three. None waits longer than it is told to: the
// coordinator must be heard meanwhile.
#pragma once

#include "agent/protocol.gen.h"
#include "halves/crossing.h"

namespace fermata::agent {

struct Checkpointer {
  const char* name;
  // The safe-state protocol stops the rank before, and begin() finds it parked. If not, the
  // program has come to where it can be saved by itself.
  bool parked;
  // Returns a number > 0 for the other calls, or -errno with the outcome filled.
  i32 (*begin)(const SaveRequest* request, SaveOutcome* outcome);
  bool (*cut)(i32 number, u32 timeout_ms);
  u64 (*resume)();  // returns for how many nanoseconds the rank has stood still
  bool (*finish)(i32 number, u32 timeout_ms, SaveOutcome* outcome);
  void (*give_up)(i32 number);
};

/// Null if there is none of that name.
const Checkpointer* find_checkpointer(const protocol::Text& name);

}  // namespace fermata::agent
