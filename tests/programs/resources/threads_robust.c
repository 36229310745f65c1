// SPDX-License-Identifier: Apache-2.0
// Row: robust mutexes whose owners end, some made before and some after a checkpoint
#include <errno.h>
#include <pthread.h>

#include "../check.h"

#define HOLDERS 8

static pthread_mutex_t held[HOLDERS], brief;
static pthread_barrier_t meet;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static int ending;  // holders below it end

static void make(pthread_mutex_t *mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex, &attributes);
}

/// Takes its mutex and ends with it, in its turn.
static void *holder(void *argument) {
  const int me = (int)(intptr_t)argument;
  CHECK(pthread_mutex_lock(&held[me]) == 0);
  pthread_barrier_wait(&meet);
  pthread_mutex_lock(&gate);
  while (ending <= me) pthread_cond_wait(&opened, &gate);
  pthread_mutex_unlock(&gate);
  return NULL;
}

static void *forgetful(void *argument) {
  CHECK(pthread_mutex_lock((pthread_mutex_t *)argument) == 0);
  return NULL;
}

/// Waits for a mutex until its owner has ended.
static void *heir(void *argument) {
  pthread_mutex_t *const mutex = argument;
  CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
  CHECK(pthread_mutex_consistent(mutex) == 0);
  CHECK(pthread_mutex_unlock(mutex) == 0);
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  make(&brief);
  pthread_barrier_init(&meet, NULL, HOLDERS + 1);
  pthread_t holders[HOLDERS], heirs[HOLDERS], thread;
  for (int i = 0; i < HOLDERS; i++) {
    make(&held[i]);
    CHECK(pthread_create(&holders[i], NULL, holder, (void *)(intptr_t)i) == 0);
  }
  pthread_barrier_wait(&meet);
  for (int i = 0; i < HOLDERS; i++)
    CHECK(pthread_create(&heirs[i], NULL, heir, &held[i]) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    const int next = step * HOLDERS / o.steps;
    for (int i = next; i < HOLDERS; i++) CHECK(pthread_mutex_trylock(&held[i]) == EBUSY);
    pthread_mutex_lock(&gate);
    const int before = ending;
    ending = next;
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&gate);
    for (int i = before; i < next; i++) {
      CHECK(pthread_join(holders[i], NULL) == 0);
      CHECK(pthread_join(heirs[i], NULL) == 0);
    }
    CHECK(pthread_create(&thread, NULL, forgetful, &brief) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    heir(&brief);
    mix_int(step);
  }
  finish();
  return 0;
}
