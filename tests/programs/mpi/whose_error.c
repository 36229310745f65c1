// SPDX-License-Identifier: Apache-2.0
// An error that a completion finds goes to the error handler of the communicator of its request or
// message, also after a restart. With --beyond, for MPICH 4.0 gives it to MPI_COMM_WORLD's.
#include "../check.h"

static int handled;
static void handle(MPI_Comm *comm, int *code, ...) {
  int class = -1;
  MPI_Error_class(*code, &class);
  CHECK(*comm != MPI_COMM_WORLD && (class == MPI_ERR_TRUNCATE || class == MPI_ERR_IN_STATUS));
  handled++;
}

static int truncated(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class == MPI_ERR_TRUNCATE;
}

static void complete_all_ways(MPI_Comm comm, int step, int step_ms) {
  const int two[2] = {step, -step}, peer = rank ^ 1, before = handled;
  int got[8], flag = 0, index = -1;
  MPI_Request request, many[2], last;
  MPI_Message message;
  MPI_Status status, statuses[2];
  if (peer >= ranks) return report_step(step, step_ms);
  MPI_Irecv(&got[5], 1, MPI_INT, peer, 9, comm, &last);
  MPI_Irecv(&got[0], 1, MPI_INT, peer, 1, comm, &request);
  MPI_Irecv(&got[1], 1, MPI_INT, peer, 2, comm, &many[0]);
  MPI_Irecv(&got[2], 1, MPI_INT, peer, 3, comm, &many[1]);
  report_step(step, step_ms);
  for (int tag = 1; tag <= 5; tag++) MPI_Send(two, tag == 2 ? 1 : 2, MPI_INT, peer, tag, comm);
  MPI_Send(two, 2, MPI_INT, peer, 9, comm);
  CHECK(truncated(MPI_Wait(&request, &status)));
  CHECK(MPI_Waitall(2, many, statuses) == MPI_ERR_IN_STATUS);
  CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && truncated(statuses[1].MPI_ERROR));
  MPI_Mprobe(peer, 4, comm, &message, &status);
  CHECK(truncated(MPI_Mrecv(&got[3], 1, MPI_INT, &message, &status)));
  MPI_Irecv(&got[4], 1, MPI_INT, peer, 5, comm, &request);
  int code = MPI_SUCCESS;
  while (!flag) code = MPI_Test(&request, &flag, &status);
  CHECK(truncated(code));
  CHECK(truncated(MPI_Waitany(1, &last, &index, &status)));
  CHECK(handled == before || handled == before + 5);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  MPI_Comm returns, handles;
  MPI_Errhandler own;
  MPI_Comm_dup(MPI_COMM_WORLD, &returns);
  MPI_Comm_dup(MPI_COMM_WORLD, &handles);
  MPI_Comm_set_errhandler(returns, MPI_ERRORS_RETURN);
  MPI_Comm_create_errhandler(handle, &own);
  MPI_Comm_set_errhandler(handles, own);
  for (int step = 1; step <= o.steps; step++) {
    if (beyond) complete_all_ways(step % 2 ? returns : handles, step, o.step_ms);
    else report_step(step, o.step_ms);
    mix_int(step);
  }
  CHECK(!beyond || (rank ^ 1) >= ranks || handled == 5 * (o.steps / 2));
  MPI_Errhandler_free(&own);
  MPI_Comm_free(&returns);
  MPI_Comm_free(&handles);
  finish();
  return 0;
}
