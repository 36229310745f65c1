// SPDX-License-Identifier: Apache-2.0
// Row: a stack that grew before a checkpoint, is deep in the middle of one, and grows after it
#include <sys/resource.h>

#include "../check.h"

static struct options o;

/// Descends `depth` frames of 16 KiB and checks each on the way up. At the bottom, the step.
static uint64_t __attribute__((noinline)) descend(int depth, int step) {
  volatile unsigned char frame[16384];
  for (size_t i = 0; i < sizeof frame; i += 512) frame[i] = (unsigned char)(depth + step + (int)i);
  uint64_t sum = 1;
  if (depth > 0) {
    sum = descend(depth - 1, step);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  for (size_t i = 0; i < sizeof frame; i += 512) {
    CHECK(frame[i] == (unsigned char)(depth + step + (int)i));
    sum = sum * 31 + frame[i];
  }
  return sum;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  o = parse_options(argc, argv, 10, 0);
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  if (limit.rlim_cur > 64 << 20) limit.rlim_cur = 64 << 20;
  const int most = (int)(limit.rlim_cur / 16384 * 3 / 4);
  for (int step = 1; step <= o.steps; step++) {
    const int depth = most * step / o.steps;
    const uint64_t sum = descend(depth, step);
    mix_int((long long)(sum != 0));
    mix_int(depth);
  }
  finish();
}
