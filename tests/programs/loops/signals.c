// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "loops.h"

static __thread volatile int handled, value_seen;

static void count(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  handled++;
  value_seen = info->si_value.sival_int;
}

static void install(int signal, void (*handler)(int, siginfo_t *, void *), int flags) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
  EXPECT(sigaction(signal, &action, NULL) == 0);
}

static void begin_raising(struct worker *w) {
  (void)w;
  install(SIGUSR1, count, 0);
  install(SIGUSR2, count, SA_NODEFER | SA_RESTART);
}

static void raising(struct worker *w) {
  (void)w;
  for (int i = 0; i < 20; i++) {
    handled = 0;
    EXPECT(raise(i % 2 ? SIGUSR1 : SIGUSR2) == 0);
    EXPECT(handled == 1);
  }
}

// --- jumps ---------------------------------------------------------------------------------------

static __attribute__((noinline)) int deep(jmp_buf *out, int depth) {
  if (depth == 0) longjmp(*out, 5);
  return (depth > 0 ? deep(out, depth - 1) : 0) + depth;
}

static void jumping(struct worker *w) {
  (void)w;
  for (volatile int i = 0; i < 100; i++) {
    jmp_buf here;
    const int value = setjmp(here);
    if (value) EXPECT(value == 5);
    else (void)deep(&here, 10);
  }
}

static __thread sigjmp_buf outside;

// Leaves the interrupted function for good: a clock is read in between, on either side.
static void leave_handler(int signal, siginfo_t *info, void *context) {
  struct timespec t;
  (void)signal, (void)info, (void)context;
  EXPECT(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
  siglongjmp(outside, 9);
}

static void begin_leaving(struct worker *w) {
  (void)w;
  install(SIGUSR1, leave_handler, 0);
}

static void leaving(struct worker *w) {
  (void)w;
  for (volatile int i = 0; i < 20; i++) {
    const int value = sigsetjmp(outside, 1);
    if (value) {
      EXPECT(value == 9);
    } else {
      EXPECT(raise(SIGUSR1) == 0);
      EXPECT(!"raise() has returned");
    }
  }
}

// --- an alarm each millisecond, on a stack of its own --------------------------------------------

static volatile int alarms;

static void read_clocks(struct timespec *t) {
  memset(t, -1, sizeof *t);
  EXPECT(clock_gettime(CLOCK_MONOTONIC, t) == 0);
  EXPECT(t->tv_nsec >= 0 && t->tv_nsec < 1000000000);
}

static void on_alarm(int signal, siginfo_t *info, void *context) {
  struct timespec t;
  (void)signal, (void)info, (void)context;
  for (int i = 0; i < 500; i++) read_clocks(&t);
  alarms++;
}

static void begin_alarms(struct worker *w) {
  static char stacks[2][65536];
  const stack_t stack = {.ss_sp = stacks[w->id], .ss_size = sizeof stacks[0]};
  const struct itimerval every = {{0, 1000}, {0, 1000}};
  EXPECT(sigaltstack(&stack, NULL) == 0);
  if (w->id) return;
  install(SIGALRM, on_alarm, SA_ONSTACK | SA_RESTART);
  EXPECT(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

static void end_alarms(struct worker *w) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  const stack_t none = {.ss_flags = SS_DISABLE};
  if (w->id == 0) EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
  EXPECT(sigaltstack(&none, NULL) == 0);
}

static void under_alarms(struct worker *w) {
  struct timespec t;
  const int before = alarms;
  (void)w;
  for (int i = 0; i < 20000 && alarms == before; i++) read_clocks(&t);
}

const struct loop signal_loops[] = {
    {"raise", raising, begin_raising, NULL, 2, 0},
    {"longjmp", jumping, NULL, NULL, 2, 0},
    {"siglongjmp", leaving, begin_leaving, NULL, 2, 0},
    {"alarm", under_alarms, begin_alarms, end_alarms, 2, 0},
    {NULL, NULL, NULL, NULL, 0, 0},
};
