// SPDX-License-Identifier: Apache-2.0
// A message in flight at the checkpoint, then MPI_Recv with MPI_STATUS_IGNORE; by exact source and
// tag, by wildcards, and one shorter than the buffer.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int step = 1; step <= o.steps; step++) {
    int in[4] = {-1, -1, -1, -1};
    for (int i = 0; i < 3; i++) {
      const int out[2] = {100 * step + 10 * rank + i, step};
      MPI_Send(out, 1 + (i == 2), MPI_INT, next, i, MPI_COMM_WORLD);
    }
    report_step(step, o.step_ms);
    MPI_Recv(&in[0], 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&in[2], 2, MPI_INT, previous, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++) CHECK(in[i] == 100 * step + 10 * previous + i);
    CHECK(in[3] == step);
    mix(in, sizeof in);
  }
  finish();
  return 0;
}
