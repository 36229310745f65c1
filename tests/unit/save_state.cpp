// SPDX-License-Identifier: Apache-2.0
// All orders of up to nine events of a rank's saving, beside a record of what has been said.
#include "agent/save_state.h"

#include <stdio.h>
#include <stdlib.h>

using fermata::u32;
using fermata::agent::SaveStage;
using fermata::agent::SaveState;
using fermata::agent::SaveWord;

namespace {

constexpr int kDepth = 9;
enum Event {
  kBegin, kBeginToEnd, kBeginUnparked, kRefuse, kWork, kFail, kEndPause, kGiveUp, kEvents
};

struct World {
  SaveState state;
  bool has_failed = false, has_said_saving = false, has_said_saved = false;
};

int worlds, reported;
Event path[kDepth];

void check(bool holds, const char* what, int depth) {
  if (holds) return;
  fprintf(stderr, "%s does not hold after", what);
  for (int i = 0; i < depth; i++) fprintf(stderr, " %d", path[i]);
  fprintf(stderr, "\n");
  exit(1);
}

void hear(World& world, SaveWord word, int depth) {
  if (word == SaveWord::kSaving) {
    check(!world.has_said_saving && !world.has_said_saved, "SAVING once, before SAVED", depth);
    world.has_said_saving = true;
  }
  if (word != SaveWord::kSaved) return;
  check(!world.has_said_saved, "SAVED once", depth);
  check(!world.state.is_standing() || world.has_failed, "SAVED after the pause", depth);
  world.has_said_saved = true;
  reported++;
}

// What Saving does with an event; false where it would not come.
bool take(World& world, Event event, int depth) {
  SaveState& state = world.state;
  const bool begins = event <= kRefuse;
  if (begins && (state.stage() == SaveStage::kNone || state.saved())) {
    if (state.is_standing()) return false;
    world = World{state};
    const u32 epoch = state.epoch() + 1;
    world.has_failed = event == kRefuse;
    if (event == kRefuse) state.refuse(epoch);
    else state.begin(epoch, event != kBeginUnparked, event == kBeginToEnd);
  } else if ((event == kWork || event == kFail) && state.is_running()) {
    world.has_failed = event == kFail;
    if (state.is_cutting()) hear(world, state.cut(), depth);
    else state.written(event == kFail);
  } else if (event == kEndPause && state.is_standing() && !state.is_cutting()) {
    state.end_pause();
  } else if (event == kGiveUp && state.owed()) {
    state.give_up();
  } else {
    return false;
  }
  hear(world, state.due(), depth);
  return true;
}

void look(const World& world, int depth) {
  const SaveState& state = world.state;
  check((state.saved() != 0) == (state.epoch() != 0 && world.has_said_saved), "saved()", depth);
  check(!state.owed() || !state.saved(), "a word is owed or said", depth);
  check(state.epoch() != 0 || !state.is_running(), "what runs has an epoch", depth);
  const bool is_over = state.epoch() && !state.is_running() && !state.is_standing();
  check(!is_over || state.saved(), "nothing is owed when all is over", depth);
  check(state.last() != SaveWord::kSaving || world.has_said_saving, "last()", depth);
}

void explore(const World& world, int depth) {
  worlds++;
  look(world, depth);
  for (int event = 0; depth < kDepth && event < kEvents; event++) {
    World next = world;
    path[depth] = Event(event);
    if (take(next, Event(event), depth + 1)) explore(next, depth + 1);
  }
}

}  // namespace

int main() {
  explore(World{}, 0);
  printf("%d orders, %d times SAVED\n", worlds, reported);
  return reported > 1000 ? 0 : 1;
}
