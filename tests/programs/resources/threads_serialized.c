// SPDX-License-Identifier: Apache-2.0
// Row: threads that take turns in MPI (MPI_THREAD_SERIALIZED), also newly created ones
// MPI is initialised by a thread other than the main one.
#include <pthread.h>

#include "../check.h"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int steps, step_ms;

static void *exchange(void *argument) {
  uint64_t *const value = argument;
  pthread_mutex_lock(&turn);
  for (int i = 0; i < 4; i++) {
    uint64_t got = 0, sum = 0;
    const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    MPI_Sendrecv(value, 1, MPI_UINT64_T, next, 5, &got, 1, MPI_UINT64_T, previous, 5,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&got, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    *value = *value * 6364136223846793005u + sum;
  }
  pthread_mutex_unlock(&turn);
  return NULL;
}

static void *whole(void *argument) {
  (void)argument;
  int provided = -1, main_thread = 0;
  CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(provided >= MPI_THREAD_SERIALIZED);
  uint64_t value = (uint64_t)rank + 1;
  for (int step = 1; step <= steps; step++) {
    pthread_t helper;  // a new one each time, as OpenMP runtimes and task pools may
    CHECK(pthread_create(&helper, NULL, exchange, &value) == 0);
    CHECK(pthread_join(helper, NULL) == 0);
    exchange(&value);
    report_step(step, step_ms);
  }
  MPI_Is_thread_main(&main_thread);
  CHECK(main_thread);
  mix(&value, sizeof value);
  finish();
  return NULL;
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t thread;
  steps = o.steps, step_ms = o.step_ms;
  CHECK(pthread_create(&thread, NULL, whole, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}
