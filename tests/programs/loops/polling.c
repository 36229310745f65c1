// SPDX-License-Identifier: Apache-2.0
// Waits for messages by polling, with a time limit of its own, as the progress loops of real
// programs do.
#include <mpi.h>
#include <time.h>
#include <unistd.h>

#include "loops.h"

static double now(void) {
  struct timespec t;
  EXPECT(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void polling(struct worker *w) {
  int rank, ranks, got = -1, arrived = 0;
  const int sent = (int)(w->turn % 100000);
  MPI_Request request;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  EXPECT(MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &request) == 0);
  if (rank == 0 || w->turn % 2) usleep(3000);
  EXPECT(MPI_Send(&sent, 1, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD) == 0);
  const double begin = now();
  while (!arrived) {
    EXPECT(MPI_Test(&request, &arrived, MPI_STATUS_IGNORE) == 0);
    EXPECT(now() - begin < 60);
  }
  EXPECT(got == sent);
}

const struct loop mpi_loops[] = {
    {"mpi_test", polling, NULL, NULL, 1, 4},
    {NULL, NULL, NULL, NULL, 0, 0},
};
