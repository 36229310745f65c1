// SPDX-License-Identifier: Apache-2.0
// Row: four threads inside MPI at once (MPI_THREAD_MULTIPLE): rings of messages, and collectives
// Each thread has a communicator of its own. Two pass messages around with blocking and with
// non-blocking calls, one probes, one calls collectives; the main thread only joins at the end.
#include <pthread.h>

#include "../check.h"

#define THREADS 4
#define ROUNDS 12

static MPI_Comm comms[THREADS];
static int steps, step_ms, step_done[THREADS];
static uint64_t results[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stepped = PTHREAD_COND_INITIALIZER;

static uint64_t stir(uint64_t x) { return x * 6364136223846793005u + 1442695040888963407u; }

static uint64_t pass_on(int how, MPI_Comm comm, uint64_t value) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  uint64_t got = 0, sum = 0;
  MPI_Status status;
  MPI_Request requests[2];
  switch (how) {
    case 0:
      if (rank == 0) MPI_Send(&value, 1, MPI_UINT64_T, next, 1, comm);
      MPI_Recv(&got, 1, MPI_UINT64_T, previous, 1, comm, &status);
      if (rank != 0) MPI_Send(&value, 1, MPI_UINT64_T, next, 1, comm);
      break;
    case 1:
      MPI_Irecv(&got, 1, MPI_UINT64_T, MPI_ANY_SOURCE, 2, comm, &requests[0]);
      MPI_Isend(&value, 1, MPI_UINT64_T, next, 2, comm, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      break;
    case 2:
      MPI_Isend(&value, 1, MPI_UINT64_T, next, 3, comm, &requests[0]);
      MPI_Probe(previous, 3, comm, &status);
      MPI_Recv(&got, 1, MPI_UINT64_T, status.MPI_SOURCE, 3, comm, &status);
      MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
      break;
    default:
      MPI_Allreduce(&value, &sum, 1, MPI_UINT64_T, MPI_SUM, comm);
      MPI_Bcast(&value, 1, MPI_UINT64_T, 0, comm);
      got = sum ^ value;
  }
  return stir(got ^ value);
}

static void *work(void *argument) {
  const int me = (int)(intptr_t)argument;
  uint64_t x = (uint64_t)(me * 100 + rank + 1);
  for (int step = 1; step <= steps; step++) {
    for (int round = 0; round < ROUNDS; round++) x = pass_on(me, comms[me], x);
    pthread_mutex_lock(&lock);
    step_done[me] = step;
    pthread_cond_broadcast(&stepped);
    pthread_mutex_unlock(&lock);
    pause_ms(step_ms);
  }
  results[me] = x;
  return NULL;
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  steps = o.steps, step_ms = o.step_ms;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]) == MPI_SUCCESS);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
  for (int step = 1; step <= steps; step++) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < THREADS; i++)
      while (step_done[i] < step) pthread_cond_wait(&stepped, &lock);
    pthread_mutex_unlock(&lock);
    report_step(step, 0);
  }
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    mix(&results[i], sizeof results[i]);
  }
  finish();
  return 0;
}
