// SPDX-License-Identifier: Apache-2.0
// Row: thread ids that stay the same and stay usable: pthread_kill, tgkill, raise, names, clocks
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"

#define WORKERS 3

static pthread_barrier_t meet;
static pid_t ids[WORKERS];
static int signalled[WORKERS + 1], stopping;
static __thread int me = WORKERS;  // the main thread

static void on_signal(int number) { signalled[me] += number == SIGUSR1; }

static void *work(void *argument) {
  me = (int)(intptr_t)argument;
  ids[me] = (pid_t)syscall(SYS_gettid);
  while (!stopping) {
    pthread_barrier_wait(&meet);
    CHECK(ids[me] == (pid_t)syscall(SYS_gettid));
    pthread_barrier_wait(&meet);
  }
  return NULL;
}

static void *cancelled(void *argument) {
  (void)argument;
  for (;;) pause();
  return NULL;
}

/// Signals reach exactly the thread they are for.
static void send_signals(const pthread_t *threads, pid_t own_id) {
  int expected[WORKERS + 1];
  memcpy(expected, signalled, sizeof expected);
  for (int i = 0; i < WORKERS; i++) {
    CHECK(pthread_kill(threads[i], SIGUSR1) == 0);
    while (signalled[i] != expected[i] + 1) pause_ms(1);
    CHECK(syscall(SYS_tgkill, getpid(), ids[i], SIGUSR1) == 0);
    while (signalled[i] != expected[i] + 2) pause_ms(1);
    expected[i] += 2;
  }
  CHECK(raise(SIGUSR1) == 0 && syscall(SYS_tkill, own_id, SIGUSR1) == 0);
  expected[WORKERS] += 2;
  CHECK(memcmp(expected, signalled, sizeof expected) == 0);
}

static void use_ids(const pthread_t *threads, int step) {
  for (int i = 0; i < WORKERS; i++) {
    char name[32], found[16];
    snprintf(name, sizeof name, "worker %d", step * WORKERS + i);
    CHECK(pthread_setname_np(threads[i], name) == 0);
    CHECK(pthread_getname_np(threads[i], found, sizeof found) == 0 && !strcmp(name, found));
    clockid_t clock;
    struct timespec used;
    CHECK(pthread_getcpuclockid(threads[i], &clock) == 0 && clock_gettime(clock, &used) == 0);
    cpu_set_t set;
    CHECK(sched_getaffinity(ids[i], sizeof set, &set) == 0 && CPU_COUNT(&set) > 0);
    int policy;
    struct sched_param parameter;
    CHECK(pthread_getschedparam(threads[i], &policy, &parameter) == 0 && policy == SCHED_OTHER);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const pid_t own_id = (pid_t)syscall(SYS_gettid);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  pthread_barrier_init(&meet, NULL, WORKERS + 1);
  pthread_t threads[WORKERS], victim;
  for (int i = 0; i < WORKERS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
  for (int step = 1; step <= o.steps; step++) {
    pthread_barrier_wait(&meet);
    CHECK(pthread_create(&victim, NULL, cancelled, NULL) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK((pid_t)syscall(SYS_gettid) == own_id);
    send_signals(threads, own_id);
    use_ids(threads, step);
    void *result;
    CHECK(pthread_cancel(victim) == 0 && pthread_join(victim, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    stopping = step == o.steps;
    pthread_barrier_wait(&meet);
    mix_int(step);
  }
  for (int i = 0; i < WORKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  finish();
  return 0;
}
