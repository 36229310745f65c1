// SPDX-License-Identifier: Apache-2.0
// The area of a circle by random points, as an MPI program that knows nothing of this library. With
// it, a process that dies takes its points along, and the result stays right: it rests on fewer.
//
//     mpirun.openmpi --enable-recovery -n 8 -x LD_PRELOAD=.../openmpi/libftcoll_mpi.so
//         -x FTCOLL_MARK=world ./monte_carlo
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>

enum { kRounds = 500, kPointsPerRound = 1000000 };

// SplitMix64: Steele, Lea, Flood (2014).
static uint64_t draw(uint64_t *state) {
  uint64_t bits = *state += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

static double unit(uint64_t *state) { return (double)(draw(state) >> 11) * 0x1p-53; }

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  uint64_t state = (uint64_t)rank << 40;
  uint64_t mine[2] = {0, 0};  // inside, all
  for (int round = 1; round <= kRounds; ++round) {
    for (int i = 0; i < kPointsPerRound; ++i) {
      const double x = unit(&state), y = unit(&state);
      mine[0] += x * x + y * y < 1;
    }
    mine[1] += kPointsPerRound;
    uint64_t all[2];
    MPI_Allreduce(mine, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    // Who is the first of the living ones is an allreduce as well.
    int first = rank;
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == first && round % 100 == 0) {
      printf("pi is about %.6f: %" PRIu64 " points of %d processes\n",
             4.0 * (double)all[0] / (double)all[1], all[1],
             (int)(all[1] / ((uint64_t)round * kPointsPerRound)));
      fflush(stdout);
    }
  }
  MPI_Finalize();
  return 0;
}
