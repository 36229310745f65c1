// SPDX-License-Identifier: Apache-2.0
// Row: OpenMP teams of changing size, with thread-private data, and MPI from the master
// Flags: -fopenmp
// Environment: OMP_NUM_THREADS=3
#include <omp.h>

#include "../check.h"

static uint64_t mine;
#pragma omp threadprivate(mine)

int main(int argc, char **argv) {
  int provided = -1;
  CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(provided >= MPI_THREAD_FUNNELED);
  const struct options o = parse_options(argc, argv, 10, 0);
  omp_set_dynamic(0);
  static double field[3000];
#pragma omp parallel num_threads(3)
  mine = (uint64_t)omp_get_thread_num() + 1;
  for (int step = 1; step <= o.steps; step++) {
    double sum = 0;
#pragma omp parallel for schedule(static) num_threads(2 + step % 2)
    for (int i = 0; i < 3000; i++) field[i] = 0.5 * field[i] + i % 7 + step;
    for (int i = 0; i < 3000; i++) sum += field[i];
    uint64_t team[3] = {0, 0, 0};
#pragma omp parallel num_threads(3)
    {
      mine = mine * 6364136223846793005u + (uint64_t)step;
      team[omp_get_thread_num()] = mine;
#pragma omp barrier
#pragma omp single
      team[0] ^= team[2];
    }
    double all[64];
    CHECK(ranks <= 64);
    MPI_Allgather(&sum, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    mix(all, sizeof(double) * (size_t)ranks);
    mix(team, sizeof team);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
