// SPDX-License-Identifier: Apache-2.0
#include "agent/checkpointers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/words.h"

namespace fermata::agent {

namespace {

// ---- native: the launcher forks a writer, whose pid is the number -----------------------------

constexpr u32 kWriterKillWaitMs = 2000;

i32 fork_writer(const SaveRequest* request, SaveOutcome* outcome) {
  store_phase(Phase::kSave);
  wake_rank();
  return launcher().save(request, outcome);
}

bool writer_has_cut(i32 pid, u32 timeout_ms) {
  return launcher().save_described(pid, timeout_ms) != 0;
}

u64 resume_rank() { return launcher().resume(); }

bool writer_has_ended(i32 pid, u32 timeout_ms, SaveOutcome* outcome) {
  return launcher().save_finish(pid, timeout_ms, outcome) != 0;
}

void kill_writer(i32 pid) {
  SaveOutcome outcome{};
  kill(pid, SIGKILL);
  launcher().save_finish(pid, kWriterKillWaitMs, &outcome);
}

// ---- self: the program's function, called in fermata_checkpoint; the epoch is the number -------

i32 ask_program(const SaveRequest* request, SaveOutcome* outcome) {
  Crossing& shared = crossing();
  const u64 bytes = strlen(request->path) + 1;
  if (bytes > sizeof(shared.save_directory)) {
    snprintf(outcome->message, sizeof(outcome->message), "the snapshot's path is too long");
    return -ENAMETOOLONG;
  }
  memcpy(shared.save_directory, request->path, bytes);
  store(shared.save_epoch, request->epoch);
  wake_waiters(&shared.answered);
  return static_cast<i32>(request->epoch);
}

bool program_has_saved(i32 epoch, u32, SaveOutcome* outcome) {
  const Crossing& shared = crossing();
  if (load(shared.saved_epoch) != static_cast<u32>(epoch)) return false;
  *outcome = {};
  char* const text = outcome->message;
  if (shared.saved_code != 0) {
    outcome->error = ECANCELED;
    snprintf(text, sizeof(outcome->message), "the program's own function has returned %d",
             shared.saved_code);
  } else if (shared.saved_error != 0) {
    outcome->error = shared.saved_error;
    snprintf(text, sizeof(outcome->message), "what the program saved cannot be flushed: %s",
             strerror(shared.saved_error));
  }
  return true;
}

// The function may call MPI, which needs all ranks: once asked for, it is called in each.
void let_it_end(i32) {}

constexpr Checkpointer kCheckpointers[] = {
    {"native", true, fork_writer, writer_has_cut, resume_rank, writer_has_ended, kill_writer},
    {"self", false, ask_program, nullptr, nullptr, program_has_saved, let_it_end},
};

}  // namespace

const Checkpointer* find_checkpointer(const protocol::Text& name) {
  for (const Checkpointer& one : kCheckpointers)
    if (strlen(one.name) == name.bytes && memcmp(one.name, name.data, name.bytes) == 0)
      return &one;
  return nullptr;
}

}  // namespace fermata::agent
