// SPDX-License-Identifier: Apache-2.0
#include "agent/saving.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sys/faults.h"

namespace fermata::agent {

using faults::Fault;
using faults::fault;

namespace {

constexpr u32 kCutWaitMs = 2;

}  // namespace

void Saving::begin(Connection& out, const Checkpointer* checkpointer, const protocol::Save& save,
                   const char* job) {
  begun_ = save.epoch;
  fault(Fault::kAgentSave);
  outcome_ = SaveOutcome{};
  pause_ns_ = 0;
  stay_ = false;
  const i32 number = start(checkpointer, save, job);
  if (number <= 0) {
    // The coordinator answers with ABORT, which lets this rank go like all the others.
    outcome_.error = number ? -number : EIO;
    return tell_saved(out);
  }
  checkpointer_ = checkpointer;
  number_ = number;
  owed_ = save.epoch;
  stay_ = save.stay != 0;
  cutting_ = standing_ = checkpointer->parked;
  fault(Fault::kAgentForked);
}

// Returns what Checkpointer::begin() does.
i32 Saving::start(const Checkpointer* checkpointer, const protocol::Save& save, const char* job) {
  if (save.path.bytes >= sizeof(path_)) {
    snprintf(outcome_.message, sizeof(outcome_.message), "the snapshot's path is too long");
    return -ENAMETOOLONG;
  }
  memcpy(path_, save.path.data, save.path.bytes);
  path_[save.path.bytes] = 0;
  const SaveRequest request{path_,
                            save.epoch,
                            crossing().world_rank,
                            crossing().world_size,
                            save.deadline_ms,
                            job};
  return checkpointer->begin(&request, &outcome_);
}

void Saving::tell_saved(Connection& out) {
  outcome_.message[sizeof(outcome_.message) - 1] = 0;
  out.send(protocol::Saved{begun_, outcome_.error, protocol::text(outcome_.message),
                           outcome_.image_bytes, pause_ns_, outcome_.image_crc});
  owed_ = 0;
}

// Writing shared memory may take minutes, and the coordinator may give the checkpoint up meanwhile:
// so this waits for the cut only for a moment. The pause ends with RESUME, and SAVED tells how long
// it was. A failure is told at once: while it is not known, RESUME may not come.
void Saving::poll(Connection& out) {
  if (cutting_) {
    if (!checkpointer_->cut(number_, kCutWaitMs)) return;
    cutting_ = false;
    out.send(protocol::Saving{owed_});
  }
  if (owed_ == 0) return;
  if (number_ > 0) {
    if (!checkpointer_->finish(number_, 0, &outcome_)) return;
    number_ = 0;
  }
  if (standing_ && outcome_.error == 0) return;
  tell_saved(out);
}

void Saving::repeat(Connection& out) {
  if (owed_ == 0) tell_saved(out);
  else if (standing_ && !cutting_) out.send(protocol::Saving{owed_});
}

void Saving::end_pause() {
  if (standing_) pause_ns_ = checkpointer_->resume();
  standing_ = false;
}

void Saving::give_up() {
  if (number_ > 0) checkpointer_->give_up(number_);
  number_ = 0;
  begun_ = owed_ = 0;
  cutting_ = false;
}

}  // namespace fermata::agent
