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
  fault(Fault::kAgentSave);
  outcome_ = SaveOutcome{};
  pause_ns_ = 0;
  const i32 number = start(checkpointer, save, job);
  if (number <= 0) {
    // The coordinator answers with ABORT, which lets this rank go like all the others.
    outcome_.error = number ? -number : EIO;
    state_.refuse(save.epoch);
    return say(out, state_.due());
  }
  checkpointer_ = checkpointer;
  number_ = number;
  state_.begin(save.epoch, checkpointer->parked, save.stay != 0);
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

void Saving::say(Connection& out, SaveWord word) {
  if (word == SaveWord::kSaving) out.send(protocol::Saving{state_.epoch()});
  if (word != SaveWord::kSaved) return;
  outcome_.message[sizeof(outcome_.message) - 1] = 0;
  out.send(protocol::Saved{state_.epoch(), outcome_.error, protocol::text(outcome_.message),
                           outcome_.image_bytes, pause_ns_, outcome_.image_crc});
}

// Writing shared memory may take minutes, and the coordinator may give the checkpoint up meanwhile:
// so this waits for the cut only for a moment.
void Saving::poll(Connection& out) {
  if (state_.is_cutting()) {
    if (!checkpointer_->cut(number_, kCutWaitMs)) return;
    say(out, state_.cut());
  }
  if (state_.is_running()) {
    if (!checkpointer_->finish(number_, 0, &outcome_)) return;
    state_.written(outcome_.error != 0);
  }
  say(out, state_.due());
}

void Saving::repeat(Connection& out) { say(out, state_.last()); }

void Saving::end_pause() {
  if (state_.is_standing()) pause_ns_ = checkpointer_->resume();
  state_.end_pause();
}

void Saving::give_up() {
  if (state_.is_running()) checkpointer_->give_up(number_);
  state_.give_up();
}

}  // namespace fermata::agent
