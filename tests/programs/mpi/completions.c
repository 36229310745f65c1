// SPDX-License-Identifier: Apache-2.0
// Every way to complete requests (Wait, Test, all, any, some, Request_get_status) over an array
// that mixes active, inactive persistent and null requests, posted before the checkpoint.
#include "../check.h"

enum { kActive = 6, kAll = kActive + 3 };

static MPI_Request idle;  // persistent, never started

// Posts kActive receives among null and inactive entries, and sends what they wait for.
static void begin(MPI_Request *request, int *in, const int *out, int next, int previous) {
  int n = 0;
  for (int i = 0; i < kAll; i++) {
    request[i] = i == 4 ? idle : MPI_REQUEST_NULL;
    if (i % 4 == 0) continue;
    const int source = n % 2 ? MPI_ANY_SOURCE : previous;
    MPI_Irecv(&in[n], 1, MPI_INT, source, n, MPI_COMM_WORLD, &request[i]);
    n++;
  }
  CHECK(n == kActive);
  for (int i = 0; i < kActive; i++) MPI_Send(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD);
}

static void by_any(MPI_Request *request, int test) {
  for (int done = 0; done < kActive; done++) {
    int index = -1, flag = !test;
    MPI_Status status;
    if (!test) MPI_Waitany(kAll, request, &index, &status);
    while (!flag) MPI_Testany(kAll, request, &index, &flag, &status);
    CHECK(index >= 0 && index % 4 != 0 && request[index] == MPI_REQUEST_NULL);
    CHECK(status.MPI_TAG == index - 1 - index / 4);
  }
  int index = 0, flag = 0;
  MPI_Testany(kAll, request, &index, &flag, MPI_STATUS_IGNORE);
  CHECK(flag && index == MPI_UNDEFINED);
  MPI_Waitany(kAll, request, &index, MPI_STATUS_IGNORE);
  CHECK(index == MPI_UNDEFINED);
}

static void by_some(MPI_Request *request, int test) {
  for (int done = 0; done < kActive;) {
    int count = 0, index[kAll];
    MPI_Status status[kAll];
    if (test) MPI_Testsome(kAll, request, &count, index, status);
    else MPI_Waitsome(kAll, request, &count, index, status);
    CHECK(count >= 0 && (test || count > 0));
    for (int i = 0; i < count; i++) CHECK(status[i].MPI_TAG == index[i] - 1 - index[i] / 4);
    done += count;
  }
  int count = 0, index[kAll];
  MPI_Waitsome(kAll, request, &count, index, MPI_STATUSES_IGNORE);
  CHECK(count == MPI_UNDEFINED);
}

static void by_all(MPI_Request *request, int test) {
  MPI_Status status[kAll];
  int flag = 0;
  if (!test) MPI_Waitall(kAll, request, status);
  while (test && !flag) MPI_Testall(kAll, request, &flag, status);
  CHECK(status[0].MPI_SOURCE == MPI_ANY_SOURCE && status[0].MPI_TAG == MPI_ANY_TAG);
  CHECK(status[1].MPI_TAG == 0 && status[kAll - 2].MPI_TAG == kActive - 1);
}

static void one_by_one(MPI_Request *request, int test) {
  for (int i = 0; i < kAll; i++) {
    int flag = 0, empty = -1;
    MPI_Status status;
    while (!flag) MPI_Request_get_status(request[i], &flag, &status);
    MPI_Get_count(&status, MPI_INT, &empty);
    CHECK(empty == (i % 4 != 0));
    flag = 0;
    if (!test) MPI_Wait(&request[i], &status);
    while (test && !flag) MPI_Test(&request[i], &flag, &status);
    CHECK(i % 4 == 0 || status.MPI_TAG == i - 1 - i / 4);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int nothing;
  MPI_Recv_init(&nothing, 1, MPI_INT, previous, 99, MPI_COMM_WORLD, &idle);
  void (*const complete[4])(MPI_Request *, int) = {by_any, by_some, by_all, one_by_one};
  for (int step = 1; step <= o.steps; step++) {
    MPI_Request request[4][kAll];
    int out[4][kActive], in[4][kActive];
    for (int way = 0; way < 4; way++) {
      for (int i = 0; i < kActive; i++) out[way][i] = 1000 * step + 100 * way + 10 * rank + i;
      begin(request[way], in[way], out[way], next, previous);
    }
    report_step(step, o.step_ms);
    for (int way = 0; way < 4; way++) {
      complete[way](request[way], step % 2);
      for (int i = 0; i < kActive; i++)
        CHECK(in[way][i] == 1000 * step + 100 * way + 10 * previous + i);
    }
    mix(in, sizeof in);
  }
  MPI_Request_free(&idle);
  finish();
  return 0;
}
