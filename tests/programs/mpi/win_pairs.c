// SPDX-License-Identifier: Apache-2.0
// Windows that pairs of ranks make at the same time, each pair its own. The pairs' communicators
// may have one number in the MPI library, which must not take one pair's memory for the other's.
#include "../check.h"

enum { kRounds = 2, kInts = 4 };  // MPICH 4.0 wants segments aligned to 16 bytes for MPI_Put

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair);  // ranks: an even number
  int place = 0, places = 0;
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
    report_step(step, o.step_ms);
    mix(memory, sizeof *memory);
  }
  MPI_Win_free(&kept);
  MPI_Comm_free(&pair);
  finish();
  return 0;
}
