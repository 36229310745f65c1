// SPDX-License-Identifier: Apache-2.0
// Row: recursive and error-checking mutexes, held by the main thread and by another
// The owner of such a mutex is a kernel thread id, which a restart changes.
#include <errno.h>
#include <pthread.h>

#include "../check.h"

struct pair {
  pthread_mutex_t recursive, checking;
};
static struct pair of_main, of_holder;
static pthread_barrier_t meet;
static int stopping;

static void make(pthread_mutex_t *mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  pthread_mutex_init(mutex, &attributes);
}

static void take(struct pair *p) {
  CHECK(pthread_mutex_lock(&p->recursive) == 0);
  CHECK(pthread_mutex_lock(&p->checking) == 0);
}

/// They are still this thread's own.
static void give(struct pair *p) {
  CHECK(pthread_mutex_lock(&p->recursive) == 0);
  CHECK(pthread_mutex_lock(&p->checking) == EDEADLK);
  CHECK(pthread_mutex_unlock(&p->recursive) == 0);
  CHECK(pthread_mutex_unlock(&p->recursive) == 0);
  CHECK(pthread_mutex_unlock(&p->checking) == 0);
}

/// They are another thread's.
static void knock(struct pair *p) {
  CHECK(pthread_mutex_trylock(&p->recursive) == EBUSY);
  CHECK(pthread_mutex_trylock(&p->checking) == EBUSY);
  CHECK(pthread_mutex_unlock(&p->checking) == EPERM);
}

static void *holder(void *argument) {
  (void)argument;
  for (;;) {
    take(&of_holder);
    pthread_barrier_wait(&meet);  // held while the main thread reports and a checkpoint may come
    pthread_barrier_wait(&meet);
    knock(&of_main);
    give(&of_holder);
    pthread_barrier_wait(&meet);
    if (stopping) return NULL;
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct pair *const pairs[] = {&of_main, &of_holder};
  for (int i = 0; i < 2; i++) {
    make(&pairs[i]->recursive, PTHREAD_MUTEX_RECURSIVE);
    make(&pairs[i]->checking, PTHREAD_MUTEX_ERRORCHECK);
  }
  pthread_barrier_init(&meet, NULL, 2);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, holder, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    take(&of_main);
    pthread_barrier_wait(&meet);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    knock(&of_holder);
    stopping = step == o.steps;
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    give(&of_main);
    mix_int(step);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  finish();
  return 0;
}
