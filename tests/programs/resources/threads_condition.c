// SPDX-License-Identifier: Apache-2.0
// Row: threads asleep on condition variables, woken in turn
#include <pthread.h>

#include "../check.h"

#define WORKERS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int turn, rounds, stopping;
static uint64_t trace = 0x9e3779b97f4a7c15u;

// Worker i waits for its turn, leaves its mark and passes the turn on.
static void *work(void *argument) {
  const int me = (int)(intptr_t)argument;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (turn != me + 1 && !stopping) pthread_cond_wait(&turned, &lock);
    if (stopping) break;
    trace = trace * 6364136223846793005u + (uint64_t)me;
    turn = me + 1 < WORKERS ? me + 2 : 0;
    if (turn == 0) rounds++;
    pthread_cond_broadcast(&turned);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
  for (int step = 1; step <= o.steps; step++) {
    pthread_mutex_lock(&lock);
    turn = 1;
    pthread_cond_broadcast(&turned);
    while (rounds < step) pthread_cond_wait(&turned, &lock);
    pthread_mutex_unlock(&lock);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  mix(&trace, sizeof trace);
  pthread_mutex_lock(&lock);
  stopping = 1;
  pthread_cond_broadcast(&turned);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  finish();
  return 0;
}
