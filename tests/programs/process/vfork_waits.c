// SPDX-License-Identifier: Apache-2.0
// A thread that no signal reaches for a while: it waits for the child that it has made by vfork(2).
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static int begun;

static void *wait_for_child(void *milliseconds) {
  const int ms = (int)(intptr_t)milliseconds;
  const struct timespec time = {ms / 1000, (ms % 1000) * 1000000L};
  __atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
  const pid_t child = vfork();
  if (child == 0) {
    syscall(SYS_nanosleep, &time, NULL);
    _exit(0);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 10000);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_for_child, (void *)(intptr_t)o.size) == 0);
  while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE)) pause_ms(1);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  finish();
  return 0;
}
