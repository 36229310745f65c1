// SPDX-License-Identifier: Apache-2.0
// Receives that are too short for their message, from any source or the one that it comes from:
// found by MPI_Recv and in all ways in which requests are completed. The message counts as
// received, or no checkpoint would come to its end after that.
#include "../check.h"

enum { kSent = 8, kRoom = 4, kWays = 7 };

static int class_of(int error) {
  int class = -1;
  MPI_Error_class(error, &class);
  return class;
}

static int of_array(int way, MPI_Request *request) {
  MPI_Status status;
  int index = -1, count = 0, error = MPI_SUCCESS;
  if (way == 3) return MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
  if (way == 4) error = MPI_Waitsome(1, request, &count, &index, &status);
  if (way == 5) error = MPI_Waitall(1, request, &status);
  while (way == 6 && count == 0 && error == MPI_SUCCESS)
    error = MPI_Testany(1, request, &index, &count, MPI_STATUS_IGNORE);
  if (way == 6) return error;
  CHECK(class_of(error) == MPI_ERR_IN_STATUS);
  return status.MPI_ERROR;
}

static int receive(int way, int from, int *in) {
  MPI_Request request;
  int flag = 0, error = MPI_SUCCESS;
  if (way == 0) return MPI_Recv(in, kRoom, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  error = MPI_Irecv(in, kRoom, MPI_INT, from, way, MPI_COMM_WORLD, &request);
  CHECK(error == MPI_SUCCESS);
  if (way == 1) return MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (way > 2) return of_array(way, &request);
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
    const int from = step % 3 ? (rank + ranks - 1) % ranks : MPI_ANY_SOURCE;
    for (int way = 0; way < kWays; way++)
      CHECK(class_of(receive(way, from, in)) == MPI_ERR_TRUNCATE);
    MPI_Waitall(kWays, sends, MPI_STATUSES_IGNORE);
    if (step % 2 == 0) report_step(step, o.step_ms);
    mix_int(step);
  }
  finish();
  return 0;
}
