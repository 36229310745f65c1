// SPDX-License-Identifier: Apache-2.0
// A receive for which one thread waits, without a status, is cancelled by another one: alone, and
// among two, one of which gets its message. What was cancelled has received nothing.
#include <pthread.h>

#include "../check.h"

enum { kNever = 1, kComes = 2, kUntilItWaitsMs = 20 };

static MPI_Request waited[2];

static void *wait_for_one(void *unused) {
  MPI_Wait(&waited[0], MPI_STATUS_IGNORE);
  return unused;
}
static void *wait_for_both(void *unused) {
  MPI_Waitall(2, waited, MPI_STATUSES_IGNORE);
  return unused;
}

static void cancel_while(void *(*waits)(void *)) {
  MPI_Request same = waited[0];
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
  pause_ms(kUntilItWaitsMs);
  MPI_Cancel(&same);
  pthread_join(thread, NULL);
  CHECK(waited[0] == MPI_REQUEST_NULL);
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int step = 1; step <= o.steps; step++) {
    const int mine = 100 * step + rank;
    int never = -1, comes = -1;
    MPI_Irecv(&never, 1, MPI_INT, previous, kNever, MPI_COMM_WORLD, &waited[0]);
    cancel_while(wait_for_one);
    MPI_Irecv(&never, 1, MPI_INT, previous, kNever, MPI_COMM_WORLD, &waited[0]);
    MPI_Irecv(&comes, 1, MPI_INT, previous, kComes, MPI_COMM_WORLD, &waited[1]);
    MPI_Send(&mine, 1, MPI_INT, next, kComes, MPI_COMM_WORLD);
    cancel_while(wait_for_both);
    CHECK(never == -1 && comes == 100 * step + previous);
    report_step(step, o.step_ms);
    mix_int(comes);
  }
  finish();
  return 0;
}
