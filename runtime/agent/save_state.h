// SPDX-License-Identifier: Apache-2.0
// Where the saving of a rank is, and which word the coordinator is owed: what agent/saving.h does
// is decided here, without I/O and without a clock.
//
//   kNone ──begin──> kCutting ──cut──> kWriting ──written──> kWritten ──said──> kReported
//                    says SAVING                             says SAVED
//
// A rank that does not stand begins at kWriting, one that cannot begin at kWritten. SAVED tells how
// long the rank has stood, so it waits for the end of the pause; a failure does not, since RESUME
// may not come while it is not known. give_up leads back to kNone from everywhere.
#pragma once

#include "base/types.h"
#include "sys/check.h"

namespace fermata::agent {

enum class SaveStage : u8 {
  kNone,      // nothing was asked for, or it was given up
  kCutting,   // the checkpointer takes what the job would change by continuing
  kWriting,   // it writes what it has taken
  kWritten,   // it has ended; SAVED has not been said
  kReported,  // SAVED has been said
};

enum class SaveWord : u8 { kNone, kSaving, kSaved };

class SaveState {
 public:
  /// The checkpointer has begun. `stands`: the launcher keeps the rank's threads until the pause
  /// ends, and there is something to cut before.
  void begin(u32 epoch, bool stands, bool ends_the_run) {
    epoch_ = epoch;
    stands_ = stands;
    ends_the_run_ = ends_the_run;
    has_failed_ = false;
    stage_ = stands ? SaveStage::kCutting : SaveStage::kWriting;
  }
  /// It could not begin. The rank is parked, and is let go by the answer to SAVED.
  void refuse(u32 epoch) {
    epoch_ = epoch;
    ends_the_run_ = false;
    has_failed_ = true;
    stage_ = SaveStage::kWritten;
  }
  /// It has cut. SAVING is owed.
  SaveWord cut() {
    FERMATA_CHECK(is_cutting(), "what has cut was cutting");
    stage_ = SaveStage::kWriting;
    return SaveWord::kSaving;
  }
  void written(bool has_failed) {
    FERMATA_CHECK(is_running(), "what has written was at work");
    has_failed_ = has_failed;
    stage_ = SaveStage::kWritten;
  }
  void end_pause() { stands_ = false; }
  /// Does not end the pause.
  void give_up() {
    stage_ = SaveStage::kNone;
    epoch_ = 0;
  }

  /// SAVED where it is due now; that counts as said.
  SaveWord due() {
    if (stage_ != SaveStage::kWritten || (stands_ && !has_failed_)) return SaveWord::kNone;
    stage_ = SaveStage::kReported;
    return SaveWord::kSaved;
  }
  /// The word that was said last, for a coordinator that may not have got it.
  SaveWord last() const {
    if (owed() == 0) return SaveWord::kSaved;
    return stands_ && !is_cutting() ? SaveWord::kSaving : SaveWord::kNone;
  }

  SaveStage stage() const { return stage_; }
  /// The checkpoint whose SAVE was obeyed last; 0 = none, or it was given up.
  u32 epoch() const { return epoch_; }
  /// The same while SAVED is owed; 0 = it is not.
  u32 owed() const { return stage_ == SaveStage::kReported ? 0 : epoch_; }
  /// The same once SAVED has been said.
  u32 saved() const { return stage_ == SaveStage::kReported ? epoch_ : 0; }
  bool is_cutting() const { return stage_ == SaveStage::kCutting; }
  /// The checkpointer is at work: its number is good.
  bool is_running() const { return is_cutting() || stage_ == SaveStage::kWriting; }
  /// The launcher keeps the rank's threads.
  bool is_standing() const { return stands_; }
  /// The rank stays parked when its threads have been let go.
  bool ends_the_run() const { return ends_the_run_; }

 private:
  SaveStage stage_ = SaveStage::kNone;
  u32 epoch_ = 0;
  bool stands_ = false, ends_the_run_ = false, has_failed_ = false;
};

}  // namespace fermata::agent
