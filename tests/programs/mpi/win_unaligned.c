// SPDX-License-Identifier: Apache-2.0
// Windows whose memory begins at odd addresses, with displacement units that differ from rank to
// rank: every rank puts, adds to and gets a byte of every member.
//
// --beyond 1: also a window over memory of the program; Debian's MPICH 4.0 natively goes to the
// wrong place where such memory does not begin at a multiple of 16.
#include "../check.h"

enum { kMostRanks = 8 };

static int unit_of(int target) { return 1 + 2 * target; }
static int size_of(int target) { return (ranks + 2) * unit_of(target) + 1; }
static signed char value_of(int step, int origin, int target) {
  return (signed char)(step + 5 * origin + 7 * target);
}

// The byte at displacement R of every member is rank R's, the others stay as they are.
static void use(MPI_Win win, signed char *own, int step) {
  signed char got[kMostRanks];
  const signed char one = 1;
  MPI_Win_fence(0, win);
  memset(own, -1, (size_t)size_of(rank));
  MPI_Win_fence(0, win);
  for (int target = 0; target < ranks; target++) {
    const signed char value = value_of(step, rank, target);
    MPI_Put(&value, 1, MPI_SIGNED_CHAR, target, rank, 1, MPI_SIGNED_CHAR, win);
    MPI_Win_fence(0, win);
    MPI_Accumulate(&one, 1, MPI_SIGNED_CHAR, target, rank, 1, MPI_SIGNED_CHAR, MPI_SUM, win);
    MPI_Win_fence(0, win);
    MPI_Get(&got[target], 1, MPI_SIGNED_CHAR, target, rank, 1, MPI_SIGNED_CHAR, win);
  }
  MPI_Win_fence(0, win);
  for (int i = 0; i < size_of(rank); i++) {
    const int origin = i % unit_of(rank) ? ranks : i / unit_of(rank);
    CHECK(own[i] == (origin < ranks ? value_of(step, origin, rank) + 1 : -1));
  }
  for (int target = 0; target < ranks; target++)
    CHECK(got[target] == value_of(step, rank, target) + 1);
  mix(own, (size_t)size_of(rank));
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  CHECK(ranks <= kMostRanks);
  static _Alignas(16) signed char memory[(kMostRanks + 2) * (2 * kMostRanks) + 32];
  signed char *segment, *const odd = memory + 5 + rank;
  MPI_Win shared, created;
  MPI_Win_allocate_shared(size_of(rank), unit_of(rank), MPI_INFO_NULL, MPI_COMM_WORLD, &segment,
                          &shared);
  if (beyond)
    MPI_Win_create(odd, size_of(rank), unit_of(rank), MPI_INFO_NULL, MPI_COMM_WORLD, &created);
  for (int step = 1; step <= o.steps; step++) {
    report_step(step, o.step_ms);
    use(shared, segment, step);
    if (beyond) use(created, odd, step);
    else mix(segment, (size_t)size_of(rank));
  }
  if (beyond) MPI_Win_free(&created);
  MPI_Win_free(&shared);
  finish();
  return 0;
}
