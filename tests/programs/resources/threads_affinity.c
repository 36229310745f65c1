// SPDX-License-Identifier: Apache-2.0
// Row: threads bound to processors by the program
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "../check.h"

#define WORKERS 3

static pthread_barrier_t meet;
static int cpus[CPU_SETSIZE], cpu_count, stopping;

static cpu_set_t only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

/// Bound to one processor after the other, by itself.
static void *work(void *argument) {
  int turn = (int)(intptr_t)argument;
  cpu_set_t wanted = only(cpus[turn % cpu_count]), found;
  CHECK(pthread_setaffinity_np(pthread_self(), sizeof wanted, &wanted) == 0);
  while (!stopping) {
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    CHECK(sched_getaffinity(0, sizeof found, &found) == 0);
    CHECK(CPU_EQUAL(&wanted, &found));
    CHECK(CPU_ISSET(sched_getcpu(), &wanted));
    wanted = only(cpus[++turn % cpu_count]);
    CHECK(sched_setaffinity(0, sizeof wanted, &wanted) == 0);
    pthread_barrier_wait(&meet);
  }
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  cpu_set_t all, found;
  memset(&all, 0xff, sizeof all);
  CHECK(sched_setaffinity(0, sizeof all, &all) == 0);  // whatever the launcher had bound it to
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all)) cpus[cpu_count++] = cpu;
  pthread_barrier_init(&meet, NULL, WORKERS + 1);
  pthread_t threads[WORKERS];
  for (int i = 0; i < WORKERS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
  for (int step = 1; step <= o.steps; step++) {
    pthread_barrier_wait(&meet);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(sched_getaffinity(0, sizeof found, &found) == 0 && CPU_EQUAL(&all, &found));
    stopping = step == o.steps;
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    mix_int(step);
  }
  for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  finish();
  return 0;
}
