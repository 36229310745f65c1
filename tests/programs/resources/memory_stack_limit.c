// SPDX-License-Identifier: Apache-2.0
// Row: RLIMIT_STACK raised at run time: the stack grows further, also after a restart
#include <sys/resource.h>

#include "../check.h"

#define FIRST_LIMIT ((rlim_t)12 << 20)
#define LIMIT_STEP ((rlim_t)2 << 20)

static struct options o;

/// Descends `depth` frames of 16 KiB and checks each on the way up. At the bottom, the step.
static void __attribute__((noinline)) descend(int depth, int step) {
  volatile unsigned char frame[16384];
  for (size_t i = 0; i < sizeof frame; i += 512) frame[i] = (unsigned char)(depth + step + (int)i);
  if (depth > 0) {
    descend(depth - 1, step);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  for (size_t i = 0; i < sizeof frame; i += 512)
    CHECK(frame[i] == (unsigned char)(depth + step + (int)i));
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  o = parse_options(argc, argv, 10, 0);
  struct rlimit limit, found;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  for (int step = 1; step <= o.steps; step++) {
    limit.rlim_cur = FIRST_LIMIT + LIMIT_STEP * (rlim_t)step;
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    // More than the limit was in the step before.
    descend((int)((limit.rlim_cur - LIMIT_STEP / 2) / 16384) - 24, step);
    CHECK(getrlimit(RLIMIT_STACK, &found) == 0 && found.rlim_cur == limit.rlim_cur);
    mix_int((long long)found.rlim_cur);
  }
  finish();
}
