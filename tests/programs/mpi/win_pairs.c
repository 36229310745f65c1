// SPDX-License-Identifier: Apache-2.0
// Windows that pairs of ranks make at the same time, each pair its own. The pairs' communicators
// may have one number in the MPI library, which must not take one pair's memory for the other's.
// With --beyond also windows that are not shared.
#include "../check.h"

enum { kRounds = 2, kInts = 4 };  // MPICH 4.0 wants segments aligned to 16 bytes for MPI_Put

static void put_and_free(MPI_Win win, int *own, int value, int other) {
  *own = -1;
  MPI_Win_fence(0, win);
  CHECK(MPI_Put(&value, 1, MPI_INT, other, 0, 1, MPI_INT, win) == MPI_SUCCESS);
  MPI_Win_fence(0, win);
  CHECK(*own == value);
  MPI_Win_free(&win);
}

static void unshared(MPI_Comm pair, int other, int step) {
  int memory[kInts], *own = NULL;
  MPI_Win win;
  for (int round = 0; round < 3; round++) {
    const int value = 10000 * (rank / 2) + 100 * step + round;
    CHECK(!MPI_Win_allocate(sizeof memory, sizeof *own, MPI_INFO_NULL, pair, &own, &win));
    put_and_free(win, own, value, other);
    CHECK(!MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, pair, &win));
    put_and_free(win, memory, value, other);
    CHECK(!MPI_Win_create_dynamic(MPI_INFO_NULL, pair, &win));
    MPI_Win_free(&win);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);  // ranks: an even number
  int place = 0, places = 0, beyond = 0;
  beyond = has_option(argc, argv, "--beyond");
  MPI_Comm_rank(pair, &place);
  MPI_Comm_size(pair, &places);
  MPI_Win kept;
  int *memory = NULL;
  MPI_Win_allocate_shared(kInts * sizeof *memory, sizeof *memory, MPI_INFO_NULL, pair, &memory,
                          &kept);
  for (int step = 1; step <= o.steps; step++) {
    for (int round = 0; round < kRounds; round++) {
      int *own = NULL;
      const int value = 1000 * step + 10 * round + rank;
      MPI_Win win;
      MPI_Win_allocate_shared(kInts * sizeof *own, sizeof *own, MPI_INFO_NULL, pair, &own, &win);
      MPI_Win_fence(0, win);
      MPI_Put(&value, 1, MPI_INT, (place + 1) % places, 0, 1, MPI_INT, win);
      MPI_Win_fence(0, win);
      CHECK(*own == 1000 * step + 10 * round + rank / 2 * 2 + (place + places - 1) % places);
      MPI_Win_free(&win);
    }
    MPI_Win_fence(0, kept);
    MPI_Put(&step, 1, MPI_INT, (place + 1) % places, 0, 1, MPI_INT, kept);
    MPI_Win_fence(0, kept);
    CHECK(*memory == step);
    if (beyond) unshared(pair, (place + 1) % places, step);
    report_step(step, o.step_ms);
    mix(memory, sizeof *memory);
  }
  MPI_Win_free(&kept);
  MPI_Comm_free(&pair);
  finish();
  return 0;
}
