// SPDX-License-Identifier: Apache-2.0
// The area of a circle by random points. Each process counts its own points; a result combines the
// counts of those who live. Who dies takes its points along, and the result stays right: it rests
// on fewer.
//
//     ftcoll-run -n 8 --kill 3@0.5 -- ./monte_carlo
#include <ftcoll.h>
#include <inttypes.h>
#include <stdio.h>

enum { kRounds = 100, kPointsPerRound = 1000000 };

// SplitMix64: Steele, Lea, Flood (2014).
static uint64_t draw(uint64_t *state) {
  uint64_t bits = *state += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

static double unit(uint64_t *state) { return (double)(draw(state) >> 11) * 0x1p-53; }

static int fail(const char *what) {
  fprintf(stderr, "monte_carlo: %s: %s\n", what, ftc_error());
  return 1;
}

int main(void) {
  ftc_world *world;
  ftc_comm *comm;
  if (ftc_join(&world) != FTC_OK) return fail("join");
  if (ftc_comm_all(world, &comm) != FTC_OK) return fail("communicator");
  const int32_t me = ftc_rank(world);
  uint64_t state = (uint64_t)me << 40;
  uint64_t mine[2] = {0, 0};  // inside, all
  int32_t missing[1024];
  ftc_ended ended = {.missing = missing, .room = 1024};

  for (int round = 1; round <= kRounds; ++round) {
    for (int i = 0; i < kPointsPerRound; ++i) {
      const double x = unit(&state), y = unit(&state);
      mine[0] += x * x + y * y < 1;
    }
    mine[1] += kPointsPerRound;
    uint64_t all[2];
    if (ftc_allreduce(comm, mine, all, 2, FTC_UINT64, FTC_SUM, &ended) != FTC_OK) {
      return fail("allreduce");
    }
    // All living processes know who is missing; the first of them prints.
    int32_t first = 0;
    const int32_t lost = ended.processes - ended.contributions;
    for (int32_t i = 0; i < lost; ++i) first += missing[i] == first;
    if (me == first && round % 20 == 0) {
      printf("pi is about %.6f: %" PRIu64 " points of %d of %d processes\n",
             4.0 * (double)all[0] / (double)all[1], all[1], ended.contributions, ended.processes);
      fflush(stdout);
    }
  }
  ftc_comm_free(comm);
  return ftc_leave(world) == FTC_OK ? 0 : fail("leave");
}
