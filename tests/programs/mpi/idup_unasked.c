// SPDX-License-Identifier: Apache-2.0
// A duplicate that is made, but whose request its first member has not asked for: MPI_Waitany has
// found another one, or MPI_Request_get_status has been asked. Messages on it are under way when
// the job is saved; natively nothing of it shows.
#include "../check.h"

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 4, 0);
  start(&argc, &argv);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Comm made;
    MPI_Request requests[2];
    int got = -1, index = -1, done = 0;
    MPI_Irecv(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Comm_idup(MPI_COMM_WORLD, &made, &requests[1]);
    MPI_Send(&step, 1, MPI_INT, (rank + 1) % ranks, 7, MPI_COMM_WORLD);
    if (rank == 0) {
      pause_ms(10);  // both will have ended
      if (step % 2) {
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
      } else {
        while (!done) MPI_Request_get_status(requests[1], &done, MPI_STATUS_IGNORE);
      }
    } else {
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      MPI_Send(&rank, 1, MPI_INT, 0, step, made);
    }
    report_step(step, o.step_ms);
    if (rank == 0) {
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      for (int i = 1; i < ranks; i++) {
        int value = -1;
        MPI_Recv(&value, 1, MPI_INT, i, step, made, MPI_STATUS_IGNORE);
        mix_int(value);
      }
    }
    mix_int(got);
    MPI_Comm_free(&made);
  }
  finish();
  return 0;
}
