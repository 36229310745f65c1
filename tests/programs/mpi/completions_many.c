// SPDX-License-Identifier: Apache-2.0
// Arrays of some hundred requests of all kinds, completed in all ways, with statuses and without;
// some fail. And how much memory such calls touch that was not there before: none, once they have
// been called, whatever their length.
#include <sys/resource.h>

#include "../check.h"

enum { kAll = 300, kRounds = 300, kAttempts = 40, kFaults = kRounds / 2 };

static MPI_Request request[kAll];
static MPI_Status status[kAll];
static int in[kAll], out[kAll], two[2], completed[kAll], seen[kAll];
static int next, previous;
static int persistent;  // whether the array has such requests: MPICH's MPI_Testall falls over them
static MPI_Request started, idle;  // persistent

static int is_receive(int i) { return i % 5 == 1 || i % 5 == 2; }
static int is_send(int i) { return i % 5 == 3; }
static int is_waited_for(int i) { return is_receive(i) || is_send(i) || (i == 5 && persistent); }
static int is_synchronous(int i) { return i % 25 == 3; }

// Receives, and a persistent one that is started and one that is not, among null requests.
static void begin(void) {
  for (int i = 0; i < kAll; i++) {
    request[i] = MPI_REQUEST_NULL;
    in[i] = seen[i] = 0;
    if (!is_receive(i)) continue;
    const int from = i % 2 ? MPI_ANY_SOURCE : previous;
    MPI_Irecv(&in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &request[i]);
  }
  if (!persistent) return;
  request[5] = started;
  request[10] = idle;
  MPI_Start(&request[5]);
}
static void send_all(int step) {
  for (int i = 0; i < kAll; i++) {
    out[i] = 1000 * step + i + rank;
    if (is_receive(i)) MPI_Send(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD);
  }
  for (int i = 0; i < kAll; i++) {
    if (is_synchronous(i))
      MPI_Issend(&out[i], 1, MPI_INT, next, kAll + i, MPI_COMM_WORLD, &request[i]);
    else if (is_send(i))
      MPI_Isend(&out[i], 1, MPI_INT, next, kAll + i, MPI_COMM_WORLD, &request[i]);
  }
  if (persistent) MPI_Send(&out[5], 1, MPI_INT, next, 5, MPI_COMM_WORLD);
}
// What `send_all` has sent with a request.
static void receive_rest(void) {
  int value;
  for (int i = 0; i < kAll; i++)
    if (is_send(i))
      MPI_Recv(&value, 1, MPI_INT, previous, kAll + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void note(int i, const MPI_Status *s) {
  CHECK(i >= 0 && i < kAll && !seen[i]);
  CHECK(is_waited_for(i));
  CHECK(i == 5 ? request[i] == started : request[i] == MPI_REQUEST_NULL);
  seen[i] = 1;
  if (!s || is_send(i)) return;
  int count = -1;
  MPI_Get_count(s, MPI_INT, &count);
  CHECK(s->MPI_SOURCE == previous && s->MPI_TAG == i && count == 1);
}

static void by_all(int test, int wants) {
  MPI_Status *const list = wants ? status : MPI_STATUSES_IGNORE;
  int flag = 0;
  if (!test) MPI_Waitall(kAll, request, list);
  while (test && !flag) MPI_Testall(kAll, request, &flag, list);
  for (int i = 0; i < kAll; i++) {
    if (is_waited_for(i)) note(i, wants ? &status[i] : NULL);
    else if (wants) CHECK(status[i].MPI_SOURCE == MPI_ANY_SOURCE);
  }
}
static void by_any(int test, int wants) {
  for (;;) {
    MPI_Status *const one = wants ? status : MPI_STATUS_IGNORE;
    int index = -1, flag = !test;
    if (!test) MPI_Waitany(kAll, request, &index, one);
    while (!flag) MPI_Testany(kAll, request, &index, &flag, one);
    if (index == MPI_UNDEFINED) return;
    note(index, wants ? one : NULL);
  }
}
static void by_some(int test, int wants) {
  MPI_Status *const list = wants ? status : MPI_STATUSES_IGNORE;
  for (;;) {
    int count = 0;
    if (test) MPI_Testsome(kAll, request, &count, completed, list);
    else MPI_Waitsome(kAll, request, &count, completed, list);
    if (count == MPI_UNDEFINED) return;
    CHECK(count >= 0 && (test || count > 0));
    for (int n = 0; n < count; n++) note(completed[n], wants ? &status[n] : NULL);
  }
}

// One receive among many is too short for its message.
static void with_an_error(int test) {
  enum { kBad = 77, kMany = 100 };
  const int long_one[2] = {rank, rank};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < kMany; i++)
    MPI_Irecv(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &request[i]);
  for (int i = 0; i < kMany; i++)
    MPI_Send(long_one, i == kBad ? 2 : 1, MPI_INT, next, i, MPI_COMM_WORLD);
  int flag = 0, error = MPI_SUCCESS, class = 0;
  if (!test) error = MPI_Waitall(kMany, request, status);
  while (test && !flag && error == MPI_SUCCESS) error = MPI_Testall(kMany, request, &flag, status);
  MPI_Error_class(error, &class);
  CHECK(class == MPI_ERR_IN_STATUS);
  for (int i = 0; i < kMany; i++) {
    MPI_Error_class(status[i].MPI_ERROR, &class);
    CHECK(class == (i == kBad ? MPI_ERR_TRUNCATE : MPI_SUCCESS) ||
          (i != kBad && class == MPI_ERR_PENDING));
  }
  MPI_Waitall(kMany, request, MPI_STATUSES_IGNORE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}
static void call_each(void) {
  int flag, index, count;
  MPI_Testall(kAll, request, &flag, status);
  MPI_Testany(kAll, request, &index, &flag, status);
  MPI_Testsome(kAll, request, &count, completed, status);
  MPI_Waitall(kAll - 1, request + 1, status);
  MPI_Waitany(kAll - 1, request + 1, &index, status);
  MPI_Waitsome(kAll - 1, request + 1, &count, completed, status);
}
// A checkpoint makes a process touch its memory anew, so the quietest of many looks counts.
static void touches_nothing(void) {
  long fewest = kRounds;
  for (int i = 0; i < kAll; i++) request[i] = MPI_REQUEST_NULL;
  MPI_Irecv(in, 1, MPI_INT, previous, 4 * kAll, MPI_COMM_WORLD, &request[0]);
  for (int attempt = 0; attempt < kAttempts && fewest >= kFaults; attempt++) {
    const long before = faults();
    for (int i = 0; i < kRounds; i++) call_each();
    if (faults() - before < fewest) fewest = faults() - before;
  }
  CHECK(fewest < kFaults);
  MPI_Send(out, 1, MPI_INT, next, 4 * kAll, MPI_COMM_WORLD);
  MPI_Wait(&request[0], MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 14, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  next = (rank + 1) % ranks;
  previous = (rank + ranks - 1) % ranks;
  MPI_Recv_init(&two[0], 1, MPI_INT, previous, 5, MPI_COMM_WORLD, &started);
  MPI_Recv_init(&two[1], 1, MPI_INT, previous, 6, MPI_COMM_WORLD, &idle);
  void (*const complete[3])(int, int) = {by_all, by_any, by_some};
  for (int step = 1; step <= o.steps; step++) {
    const int way = step % 3, test = step / 3 % 2;
    persistent = beyond || way != 0 || !test;
    begin();
    if (step % 2) report_step(step, o.step_ms);
    send_all(step);
    if (step % 2 == 0) report_step(step, o.step_ms);
    receive_rest();
    complete[way](test, step % 4 < 2);
    for (int i = 0; i < kAll; i++) {
      CHECK(seen[i] == is_waited_for(i));
      CHECK(!is_receive(i) || in[i] == 1000 * step + i + previous);
    }
    mix(in, sizeof in);
    if (step % 3 == 0) with_an_error(beyond && step % 2);
    if (step % 5 == 0) touches_nothing();
  }
  MPI_Request_free(&started);
  MPI_Request_free(&idle);
  finish();
  return 0;
}
