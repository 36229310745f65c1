// SPDX-License-Identifier: Apache-2.0
// A program under another limit of the stack, or with another layout of its address space: it sees
// the limit that it was given, so do its children, and its stack grows to --size MiB in every step.
#include <sys/personality.h>
#include <sys/resource.h>

#include "../check.h"

#define FRAME (256 << 10)

static uint64_t dig(long bytes, uint64_t value) {
  volatile unsigned char here[FRAME];
  for (int at = 0; at < FRAME; at += 4096) here[at] = (unsigned char)(value + (uint64_t)at);
  const uint64_t below = bytes > FRAME ? dig(bytes - FRAME, value + 1) : value;
  uint64_t sum = below * 31;
  for (int at = 0; at < FRAME; at += 4096) sum += here[at];
  return sum;
}

static void mix_limit(void) {
  struct rlimit limit;
  char line[64] = "";
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  mix_int((long long)limit.rlim_cur);
  FILE *child = popen("ulimit -s", "r");
  CHECK(child && fgets(line, sizeof line, child) && pclose(child) == 0);
  mix(line, strlen(line));
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 4);
  for (int step = 1; step <= o.steps; step++) {
    mix_limit();
    mix_int((long long)dig((long)o.size << 20, (uint64_t)step));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  mix_int(personality(0xffffffff));
  finish();
}
