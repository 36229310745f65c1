// SPDX-License-Identifier: Apache-2.0
// What SAVE begins and SAVED ends: the saving of this rank by its checkpointer, as the coordinator
// is to see it. The agent's thread alone uses it.
#pragma once

#include "agent/checkpointers.h"
#include "agent/connection.h"

namespace fermata::agent {

class Saving {
 public:
  /// SAVE has come, for the first time in its epoch. Says SAVED if it has failed already.
  /// `job` must outlive the saving. Blocks: while the rank's threads are stopped.
  void begin(Connection& out, const Checkpointer* checkpointer, const protocol::Save& save,
             const char* job);
  /// To be called again and again while is_cutting() or is_running(): says SAVING and SAVED.
  /// Blocks: a moment.
  void poll(Connection& out);
  /// Says again what was said last, if one of these two words was the last one.
  void repeat(Connection& out);
  /// Lets the rank's threads go, if they stand.
  void end_pause();
  /// Nothing will come of it. Does not end the pause.
  void give_up();

  /// Its SAVE was obeyed, and it has not been given up.
  bool has_begun(u32 epoch) const { return begun_ == epoch; }
  /// Of the checkpoint whose SAVED is owed; 0 = none.
  u32 owed() const { return owed_; }
  /// The checkpoint whose SAVE was obeyed last; 0 = none.
  u32 begun() const { return begun_; }
  /// The same, once the rank has said how that went.
  u32 saved() const { return owed_ == 0 ? begun_ : 0; }
  bool is_running() const { return number_ > 0; }
  /// It still takes what the job would change by continuing.
  bool is_cutting() const { return cutting_; }
  /// The launcher keeps the rank's threads.
  bool is_standing() const { return standing_; }
  /// The checkpoint ends the run: the rank stays parked when its threads have been let go.
  bool ends_the_run() const { return stay_; }

 private:
  i32 start(const Checkpointer* checkpointer, const protocol::Save& save, const char* job);
  void tell_saved(Connection& out);

  const Checkpointer* checkpointer_;
  i32 number_;  // its number for what it does
  u32 begun_, owed_;
  bool cutting_, standing_, stay_;
  u64 pause_ns_;         // how long the rank has stood
  SaveOutcome outcome_;  // once the checkpointer has ended
  char path_[4096];
};

}  // namespace fermata::agent
