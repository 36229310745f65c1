// SPDX-License-Identifier: Apache-2.0
// Row: alarm and setitimer (real, virtual, profiling) continue with what was left

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "../check.h"

enum { REAL, VIRTUAL, PROF, TIMERS };
static const struct {
  int which, signal;
  long interval_us;
} timers[TIMERS] = {
    {ITIMER_REAL, SIGALRM, 15000},
    {ITIMER_VIRTUAL, SIGVTALRM, 9000},
    {ITIMER_PROF, SIGPROF, 12000}};
static volatile sig_atomic_t fired[TIMERS];

static void on_timer(int signal) {
  for (int i = 0; i < TIMERS; i++)
    if (timers[i].signal == signal) fired[i]++;
}

static void arm(int i) {
  const struct timeval every = {0, timers[i].interval_us};
  CHECK(setitimer(timers[i].which, &(struct itimerval){every, every}, NULL) == 0);
}

// All timers that are armed fire again, in bounded time, and know their intervals.
static void all_fire(int first) {
  int before[TIMERS];
  for (int i = first; i < TIMERS; i++) before[i] = fired[i];
  const double began = now_seconds();
  for (int i = first; i < TIMERS; i++)
    while (fired[i] == before[i]) {
      compute_ms(1);
      CHECK(now_seconds() < began + 20);
    }
  for (int i = first; i < TIMERS; i++) {
    struct itimerval now;
    CHECK(getitimer(timers[i].which, &now) == 0);
    // The kernel may round a processor-time interval up to its tick.
    CHECK(now.it_interval.tv_sec == 0 && now.it_interval.tv_usec >= timers[i].interval_us &&
          now.it_interval.tv_usec <= timers[i].interval_us + 10000);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
  for (int i = 0; i < TIMERS; i++) CHECK(sigaction(timers[i].signal, &action, NULL) == 0);
  arm(VIRTUAL);
  arm(PROF);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (step % 2) {
      arm(REAL);
      report_step(step, o.step_ms);
      all_fire(REAL);
      mix_int(step);
    } else {  // one that is far away, and comes once
      CHECK(alarm(1000) <= 1);
      report_step(step, o.step_ms);
      struct itimerval now;
      CHECK(getitimer(ITIMER_REAL, &now) == 0 && now.it_interval.tv_usec == 0);
      const int fired_before = fired[REAL];
      all_fire(VIRTUAL);
      const unsigned left = alarm(0);
      CHECK(left > 800 && left <= 1000 && fired[REAL] == fired_before);
    }
  }
  finish();
  return 0;
}
