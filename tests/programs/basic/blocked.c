// SPDX-License-Identifier: Apache-2.0
// Every rank but 0 spends its life blocked in MPI_Recv, MPI_Wait or MPI_Probe while 0 computes.
#include "../check.h"

static int receive_one(int step) {
  int value = -1;
  MPI_Status status;
  if (step % 3 == 0) {
    MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
  } else if (step % 3 == 1) {
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, step, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
  } else {
    MPI_Probe(0, step, MPI_COMM_WORLD, &status);
    MPI_Recv(&value, 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
  }
  CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == step);
  return value;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 6, 0);
  for (int step = 1; step <= o.steps; step++) {
    if (rank == 0) {
      report_step(step, 0);
      compute_ms(o.step_ms);
      for (int peer = 1; peer < ranks; peer++) {
        const int value = step * 100 + peer;
        MPI_Send(&value, 1, MPI_INT, peer, step, MPI_COMM_WORLD);
      }
    } else {
      const int value = receive_one(step);
      CHECK(value == step * 100 + rank);
      mix_int(value);
    }
  }
  finish();
  return 0;
}
