// SPDX-License-Identifier: Apache-2.0
// Row: sleeps and waits with a timeout are neither cut short nor interrupted (EINTR)

// A thread for each blocking call; none installs a signal handler, so none may ever see EINTR.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

#define WAIT_MS 60

static int stopping;

static int by_nanosleep(void) {
  return nanosleep(&(struct timespec){0, WAIT_MS * 1000000L}, NULL);
}
static int by_nanosleep_with_rest(void) {
  struct timespec rest;
  return nanosleep(&(struct timespec){0, WAIT_MS * 1000000L}, &rest);
}
static int by_clock_nanosleep(void) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += WAIT_MS * 1000000L;
  if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
  const int error = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
  errno = error;
  return error ? -1 : 0;
}
static int by_poll(void) { return poll(NULL, 0, WAIT_MS); }
static int by_ppoll(void) {
  sigset_t all;
  sigfillset(&all);
  return ppoll(NULL, 0, &(struct timespec){0, WAIT_MS * 1000000L}, &all);
}
static int by_select(void) {
  return select(0, NULL, NULL, NULL, &(struct timeval){0, WAIT_MS * 1000L});
}
static int by_pselect(void) {
  sigset_t all;
  sigfillset(&all);
  return pselect(0, NULL, NULL, NULL, &(struct timespec){0, WAIT_MS * 1000000L}, &all);
}
static int by_sem_timedwait(void) {
  sem_t never;
  struct timespec until;
  sem_init(&never, 0, 0);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += WAIT_MS * 1000000L;
  if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
  const int result = sem_timedwait(&never, &until);
  return result == -1 && errno == ETIMEDOUT ? 0 : result;
}
static int by_futex(void) {
  int word = 0;
  const long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0,
                              &(struct timespec){0, WAIT_MS * 1000000L}, NULL, 0);
  return result == -1 && errno == ETIMEDOUT ? 0 : (int)result;
}
static int by_sigtimedwait(void) {
  sigset_t all;
  sigfillset(&all);
  const int result = sigtimedwait(&all, NULL, &(struct timespec){0, WAIT_MS * 1000000L});
  return result == -1 && errno == EAGAIN ? 0 : result;
}

static struct sleeper {
  const char *name;
  int (*wait)(void);
  int error, early;
  unsigned rounds;
} sleepers[] = {
    {.name = "nanosleep", .wait = by_nanosleep}, {.name = "rest", .wait = by_nanosleep_with_rest},
    {.name = "absolute", .wait = by_clock_nanosleep}, {.name = "poll", .wait = by_poll},
    {.name = "ppoll", .wait = by_ppoll}, {.name = "select", .wait = by_select},
    {.name = "pselect", .wait = by_pselect}, {.name = "futex", .wait = by_futex},
    {.name = "sem_timedwait", .wait = by_sem_timedwait},
    {.name = "sigtimedwait", .wait = by_sigtimedwait},
};
#define SLEEPERS (sizeof sleepers / sizeof *sleepers)

static void *sleeper(void *argument) {
  struct sleeper *me = argument;
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    const double began = now_seconds();
    const int result = me->wait();
    // A restart may put the clock anywhere; within one process it must have advanced enough.
    const double slept = now_seconds() - began;
    if (result != 0) me->error = errno ? errno : result;
    if (slept >= 0 && slept < 1e-3 * (WAIT_MS - 2)) me->early++;
    me->rounds++;
  }
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t threads[SLEEPERS];
  for (unsigned i = 0; i < SLEEPERS; i++)
    CHECK(pthread_create(&threads[i], NULL, sleeper, &sleepers[i]) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    // Without a second try, unlike pause_ms.
    CHECK(usleep((useconds_t)o.step_ms * 1000) == 0);  // without a second try, unlike pause_ms
    report_step(step, 0);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  for (unsigned i = 0; i < SLEEPERS; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    if (sleepers[i].error || sleepers[i].early)
      printf("%s: errno %d, %d early of %u\n", sleepers[i].name, sleepers[i].error,
             sleepers[i].early, sleepers[i].rounds);
    CHECK(sleepers[i].error == 0 && sleepers[i].early == 0 && sleepers[i].rounds > 0);
    mix_int(i);
  }
  finish();
  return 0;
}
