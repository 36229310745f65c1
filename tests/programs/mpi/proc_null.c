// SPDX-License-Identifier: Apache-2.0
// Messages to and from MPI_PROC_NULL count for nobody: a checkpoint after many of them does not
// wait for what never comes.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Request pending[3], persistent, synchronous;
  int value = 0;
  MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &persistent);
  MPI_Ssend_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &synchronous);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Status status;
    int count = -1, flag = 0;
    for (int i = 0; i < 5; i++) MPI_Send(&step, 1, MPI_INT, MPI_PROC_NULL, i, MPI_COMM_WORLD);
    MPI_Isend(&step, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &pending[0]);
    MPI_Issend(&step, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &pending[1]);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &pending[2]);
    MPI_Start(&persistent);
    MPI_Start(&synchronous);
    report_step(step, o.step_ms);
    MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    MPI_Wait(&synchronous, MPI_STATUS_IGNORE);
    MPI_Waitall(3, pending, MPI_STATUSES_IGNORE);
    MPI_Probe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &status);
    CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Sendrecv(&step, 1, MPI_INT, MPI_PROC_NULL, 1, &value, 1, MPI_INT, MPI_PROC_NULL, 1,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == 0 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    CHECK(value == 0);
    mix_int(step);
  }
  MPI_Request_free(&persistent);
  MPI_Request_free(&synchronous);
  finish();
  return 0;
}
