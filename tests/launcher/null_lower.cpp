// SPDX-License-Identifier: Apache-2.0
// A lower half without MPI, for testing the launcher alone. It proves that libc, threads and TLS
// work on GS, hands over to the application, and plays the agent: with NULL_SAVE=DIR:MS:COUNT it
// saves the rank COUNT times, every MS milliseconds, and then ends the process with status 99.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "halves/crossing.h"

namespace {

using namespace fermata;

thread_local int mine = 7;

struct Plan {
  char directory[200];
  int interval_ms, count;
};

bool save_once(const Plan& plan, u32 epoch) {
  Crossing& shared = crossing();
  char path[300], final_path[300];
  snprintf(path, sizeof path, "%s/partial.img", plan.directory);
  snprintf(final_path, sizeof final_path, "%s/rank-0.img", plan.directory);
  shared.pending = epoch;
  __atomic_store_n(&shared.phase, Phase::kSave, __ATOMIC_RELEASE);
  launcher().nudge(shared.mpi_tid);
  const SaveRequest request{path, epoch, 0, 1, 2000, "null"};
  SaveOutcome outcome;
  const i32 writer = launcher().save(&request, &outcome);
  if (outcome.shared) launcher().resume();
  __atomic_store_n(&shared.phase, Phase::kRun, __ATOMIC_RELEASE);
  __atomic_store_n(&shared.pending, 0u, __ATOMIC_RELEASE);
  if (writer > 0)
    while (launcher().save_finish(writer, 1000, &outcome) == 0) {}
  fprintf(stderr, "save %u: error %d %s, %llu bytes, pause %llu us\n", epoch, outcome.error,
          outcome.message, (unsigned long long)outcome.image_bytes,
          (unsigned long long)outcome.pause_ns / 1000);
  return outcome.error == 0 && rename(path, final_path) == 0;
}

void* agent(void* argument) {
  const Plan plan = *static_cast<Plan*>(argument);
  mine += 1;
  for (int epoch = 1; epoch <= plan.count; epoch++) {
    usleep(useconds_t(plan.interval_ms) * 1000);
    if (!save_once(plan, u32(epoch))) _exit(98);
  }
  if (mine != 8) _exit(97);
  if (plan.count) _exit(99);
  return nullptr;
}

int gather(const void* mine, u64 bytes, void* all) {
  memcpy(all, mine, bytes);
  return 0;
}

LowerCalls calls{kCrossingVersion, 0, nullptr, "none", nullptr, nullptr, gather};
Plan plan;

}  // namespace

int main() {
  if (const char* text = getenv("NULL_SAVE"))
    if (sscanf(text, "%199[^:]:%d:%d", plan.directory, &plan.interval_ms, &plan.count) != 3)
      return 2;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, agent, &plan)) return 1;
  const bool restart = launcher().config("restore")[0] != 0;
  launcher().lower_ready(&calls, restart ? 0 : kWorldUnknown, restart ? 1 : 0);
}
