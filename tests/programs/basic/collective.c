// SPDX-License-Identifier: Apache-2.0
// One rank waits in a collective long before the others come; which one, and in which, rotates. A
// message that a late rank owes to another before it may enter makes the plain rule "park when the
// clocks are reached" wait for ever, so that case is here too (last lines of a step).
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm pair;  // ranks 0 and 1, the others each alone
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : rank, rank, &pair);
  for (int step = 1; step <= o.steps; step++) {
    int value = rank + step, sum = 0;
    if (rank != step % ranks) compute_ms(o.step_ms);
    switch (step % 4) {
      case 0: MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
      case 1: MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD); break;
      case 2: MPI_Barrier(MPI_COMM_WORLD); break;
      default: {
        MPI_Request request;
        MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
    }
    mix_int(sum);
    // The last rank frees rank 1, which alone lets rank 0 leave the Bcast on `pair`.
    if (rank == ranks - 1 && ranks > 2) {
      compute_ms(o.step_ms);
      MPI_Send(&step, 1, MPI_INT, 1, 9, MPI_COMM_WORLD);
    }
    int root_value = step;
    if (rank == 1 && ranks > 2)
      MPI_Recv(&root_value, 1, MPI_INT, ranks - 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int size;
    MPI_Comm_size(pair, &size);
    MPI_Bcast(&root_value, 1, MPI_INT, size - 1, pair);
    CHECK(root_value == step);
    mix_int(root_value);
    report_step(step, 0);
  }
  MPI_Comm_free(&pair);
  finish();
  return 0;
}
