// SPDX-License-Identifier: Apache-2.0
// Unexpected messages on duplicated communicators: the same source and tag on three communicators,
// each must come out of its own one, in order.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Comm comm[3] = {MPI_COMM_WORLD};
  MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
  MPI_Comm_dup(comm[1], &comm[2]);
  for (int step = 1; step <= o.steps; step++) {
    for (int k = 0; k < 6; k++) {
      const int value = 100 * step + 10 * rank + k;
      MPI_Send(&value, 1, MPI_INT, next, 7, comm[k % 3]);
    }
    report_step(step, o.step_ms);
    for (int c = 2; c >= 0; c--) {
      for (int k = c; k < 6; k += 3) {
        int value = -1, waiting = 0;
        MPI_Status status;
        while (!waiting) MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm[c], &waiting, &status);
        CHECK(status.MPI_SOURCE == previous && status.MPI_TAG == 7);
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm[c], &status);
        CHECK(value == 100 * step + 10 * previous + k);
        mix_int(value);
      }
    }
  }
  MPI_Comm_free(&comm[1]);
  MPI_Comm_free(&comm[2]);
  finish();
  return 0;
}
