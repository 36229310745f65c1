// SPDX-License-Identifier: Apache-2.0
// Row: names of threads, nice, scheduling policies, timer slack, PR_SET_PDEATHSIG and the like
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

static int stopping, wrong;

static void set(int nice, int policy, unsigned long slack_ns) {
  const struct sched_param none = {0};
  CHECK(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice) == 0);
  CHECK(sched_setscheduler(0, policy, &none) == 0);
  CHECK(prctl(PR_SET_TIMERSLACK, slack_ns) == 0);
}
static int is_set(int nice, int policy, long slack_ns) {
  return getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid)) == nice &&
         sched_getscheduler(0) == policy && prctl(PR_GET_TIMERSLACK) == slack_ns;
}
static int is_named(const char *wanted) {
  char name[16] = "";
  return prctl(PR_GET_NAME, name) == 0 && !strcmp(name, wanted);
}

static void *work(void *ready) {
  CHECK(pthread_setname_np(pthread_self(), "worker") == 0);
  set(7, SCHED_OTHER, 70000);
  __atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    if (!is_named("worker") || !is_set(7, SCHED_OTHER, 70000)) wrong = 1;
    usleep(1000);
  }
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t thread;
  int ready = 0;
  CHECK(pthread_create(&thread, NULL, work, &ready) == 0);
  while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) usleep(1000);
  set(5, SCHED_BATCH, 123456);
  CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR2) == 0);
  CHECK(prctl(PR_SET_NAME, "conductor") == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    int death = 0, reaper = 0;
    CHECK(is_named("conductor") && is_set(5, SCHED_BATCH, 123456));
    CHECK(prctl(PR_GET_PDEATHSIG, &death) == 0 && death == SIGUSR2);
    CHECK(prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper == 1);
    CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
    CHECK(!wrong);
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(thread, NULL) == 0 && !wrong);
  finish();
  return 0;
}
