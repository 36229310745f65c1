// SPDX-License-Identifier: Apache-2.0
// Binds its main thread to the machine's last processor, once. The thread that it makes in each
// step inherits that.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "../check.h"

static pthread_barrier_t meet;

static void *stay(void *unused) {
  pthread_barrier_wait(&meet);
  return unused;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  cpu_set_t set;
  memset(&set, 0xff, sizeof set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);  // whatever the launcher had bound it to
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &set)) last--;
  CPU_ZERO(&set);
  CPU_SET(last, &set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
  pthread_barrier_init(&meet, NULL, 2);
  for (int step = 1; step <= o.steps; step++) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    pthread_barrier_wait(&meet);
    CHECK(pthread_join(thread, NULL) == 0);
    mix_int(step);
  }
  finish();
  return 0;
}
