// SPDX-License-Identifier: Apache-2.0
// Receives that are too short for their message, from any source: found by MPI_Test, MPI_Wait and
// MPI_Recv. The message counts as received, or no checkpoint would come to its end after that.
#include "../check.h"

enum { kSent = 8, kRoom = 4, kWays = 3 };

static int class_of(int error) {
  int class = -1;
  MPI_Error_class(error, &class);
  return class;
}

static int receive(int way, int *in) {
  MPI_Request request;
  int flag = 0, error = MPI_SUCCESS;
  if (way == 0) return MPI_Recv(in, kRoom, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD,
                                MPI_STATUS_IGNORE);
  error = MPI_Irecv(in, kRoom, MPI_INT, MPI_ANY_SOURCE, way, MPI_COMM_WORLD, &request);
  CHECK(error == MPI_SUCCESS);
  if (way == 1) return MPI_Wait(&request, MPI_STATUS_IGNORE);
  while (!flag && error == MPI_SUCCESS) error = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
  return error;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int out[kSent], in[kRoom];
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Request sends[kWays];
    for (int i = 0; i < kSent; i++) out[i] = 100 * step + 10 * rank + i;
    for (int way = 0; way < kWays; way++)
      MPI_Isend(out, kSent, MPI_INT, (rank + 1) % ranks, way, MPI_COMM_WORLD, &sends[way]);
    if (step % 2) report_step(step, o.step_ms);
    for (int way = 0; way < kWays; way++) CHECK(class_of(receive(way, in)) == MPI_ERR_TRUNCATE);
    MPI_Waitall(kWays, sends, MPI_STATUSES_IGNORE);
    if (step % 2 == 0) report_step(step, o.step_ms);
    mix_int(step);
  }
  finish();
  return 0;
}
