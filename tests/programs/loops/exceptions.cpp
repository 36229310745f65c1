// SPDX-License-Identifier: Apache-2.0
extern "C" {
#include "loops.h"
}

namespace {

struct Counted {
  explicit Counted(int& count) : count_(count) { count_++; }
  ~Counted() { count_--; }
  Counted(const Counted&) = delete;
  int& count_;
};

[[gnu::noinline]] int deep(int depth, int& alive) {
  const Counted counted(alive);
  if (depth == 0) throw 4711;
  return deep(depth - 1, alive) + 1;
}

void throwing(worker*) {
  for (int i = 0; i < 10; i++) {
    int alive = 0;
    bool caught = false;
    try {
      (void)deep(8, alive);
    } catch (const int& number) {
      caught = number == 4711;
    }
    EXPECT(caught && alive == 0);
  }
}

}  // namespace

extern "C" const loop exception_loops[] = {
    {"throw", throwing, nullptr, nullptr, 2, 0},
    {nullptr, nullptr, nullptr, nullptr, 0, 0},
};
