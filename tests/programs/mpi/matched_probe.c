// SPDX-License-Identifier: Apache-2.0
// Matched probes: messages taken out of the queue before the checkpoint and received after it, by
// Mrecv and Imrecv, others probed only after it, and the message that is none.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int step = 1; step <= o.steps; step++) {
    MPI_Message early[2], late, none;
    MPI_Status status;
    MPI_Request request;
    int in[3] = {-1, -1, -1}, flag = 0, count = -1;
    for (int i = 0; i < 3; i++) {
      const int value = 100 * step + 10 * rank + i;
      MPI_Send(&value, 1, MPI_INT, next, 5, MPI_COMM_WORLD);
    }
    MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &early[0], &status);
    CHECK(status.MPI_SOURCE == previous && early[0] != MPI_MESSAGE_NULL);
    while (!flag) MPI_Improbe(previous, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &early[1], &status);
    MPI_Mprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &none, &status);
    report_step(step, o.step_ms);
    CHECK(none == MPI_MESSAGE_NO_PROC);
    MPI_Mprobe(previous, 5, MPI_COMM_WORLD, &late, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 1);
    MPI_Mrecv(&in[2], 1, MPI_INT, &late, &status);
    MPI_Imrecv(&in[1], 1, MPI_INT, &early[1], &request);
    CHECK(early[1] == MPI_MESSAGE_NULL);
    MPI_Mrecv(&in[0], 1, MPI_INT, &early[0], &status);
    CHECK(status.MPI_SOURCE == previous && status.MPI_TAG == 5 && early[0] == MPI_MESSAGE_NULL);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == previous && status.MPI_TAG == 5);
    MPI_Mrecv(&in[2], 1, MPI_INT, &none, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    for (int i = 0; i < 3; i++) CHECK(in[i] == 100 * step + 10 * previous + i);
    mix(in, sizeof in);
  }
  finish();
  return 0;
}
