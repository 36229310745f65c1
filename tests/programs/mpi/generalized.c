// SPDX-License-Identifier: Apache-2.0
// Generalized requests: one completed before the checkpoint and one after it, waited for together
// with a receive; the callbacks' own count of what was called.
// --beyond 1: an error of the free function is that of the call that ends the request.
#include "../check.h"

struct work {
  int amount, queried, freed, cancelled;
};

static int query(void *extra, MPI_Status *status) {
  struct work *const w = extra;
  w->queried++;
  MPI_Status_set_elements(status, MPI_INT, w->amount);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = w->amount;
  return MPI_SUCCESS;
}
static int release(void *extra) {
  ((struct work *)extra)->freed++;
  return ((struct work *)extra)->amount < 0 ? MPI_ERR_BUFFER : MPI_SUCCESS;
}
static int cancel(void *extra, int complete) {
  ((struct work *)extra)->cancelled += 1 + complete;
  return MPI_SUCCESS;
}

static void free_fails(void) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int way = 0; way < 3; way++) {
    struct work bad = {-1, 0, 0, 0};
    MPI_Request request;
    MPI_Status status;
    int error = MPI_SUCCESS, class = MPI_SUCCESS, flag = 0;
    MPI_Grequest_start(query, release, cancel, &bad, &request);
    MPI_Grequest_complete(request);
    if (way == 0) error = MPI_Wait(&request, &status);
    if (way == 1) error = MPI_Test(&request, &flag, &status);
    if (way == 2) error = MPI_Request_free(&request);
    MPI_Error_class(error, &class);
    CHECK(class == MPI_ERR_BUFFER && bad.freed == 1 && request == MPI_REQUEST_NULL);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--beyond")) free_fails();
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int step = 1; step <= o.steps; step++) {
    struct work early = {step, 0, 0, 0}, late = {2 * step, 0, 0, 0};
    MPI_Request request[3];
    MPI_Status status[3];
    int in = -1, flag = -1, index = -1, count = -1;
    MPI_Grequest_start(query, release, cancel, &early, &request[0]);
    MPI_Grequest_start(query, release, cancel, &late, &request[1]);
    MPI_Irecv(&in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &request[2]);
    MPI_Grequest_complete(request[0]);
    MPI_Cancel(&request[1]);
    report_step(step, o.step_ms);
    MPI_Send(&step, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Test(&request[1], &flag, &status[1]);
    CHECK(!flag && late.cancelled == 1);
    MPI_Testall(3, request, &flag, status);
    CHECK(!flag);
    MPI_Waitany(1, request, &index, &status[0]);
    MPI_Get_count(&status[0], MPI_INT, &count);
    CHECK(index == 0 && count == step && status[0].MPI_TAG == step);
    CHECK(early.queried >= 1 && early.freed == 1 && request[0] == MPI_REQUEST_NULL);
    MPI_Grequest_complete(request[1]);
    MPI_Waitall(3, request, status);
    MPI_Get_count(&status[1], MPI_INT, &count);
    CHECK(count == 2 * step && in == step && late.queried >= 1 && late.freed == 1);
    mix_int(count);
  }
  finish();
  return 0;
}
