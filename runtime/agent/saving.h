// SPDX-License-Identifier: Apache-2.0
// What SAVE begins and SAVED ends: the saving of this rank by its checkpointer, as the coordinator
// is to see it. The agent's thread alone uses it.
#pragma once

#include "agent/checkpointers.h"
#include "agent/connection.h"
#include "agent/save_state.h"

namespace fermata::agent {

class Saving {
 public:
  /// SAVE has come, for the first time in its epoch. Says SAVED if it has failed already.
  /// `job` must outlive the saving. Blocks: while the rank's threads are stopped.
  void begin(Connection& out, const Checkpointer* checkpointer, const protocol::Save& save,
             const char* job);
  /// To be called again and again while the state is_running(): says SAVING and SAVED. Blocks: a
  /// moment.
  void poll(Connection& out);
  /// Says again what was said last, if one of these two words was the last one.
  void repeat(Connection& out);
  /// Lets the rank's threads go, if they stand.
  void end_pause();
  /// Nothing will come of it. Does not end the pause.
  void give_up();

  const SaveState& state() const { return state_; }

 private:
  i32 start(const Checkpointer* checkpointer, const protocol::Save& save, const char* job);
  void say(Connection& out, SaveWord word);

  SaveState state_;
  const Checkpointer* checkpointer_;
  i32 number_;           // the checkpointer's, for what it does
  u64 pause_ns_;         // how long the rank has stood
  SaveOutcome outcome_;  // once the checkpointer has ended
  char path_[4096];
};

}  // namespace fermata::agent
