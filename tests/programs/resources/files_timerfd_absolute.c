// SPDX-License-Identifier: Apache-2.0
// Row: timerfds with absolute times of the day, some of which pass while the job is down
#include <sys/timerfd.h>
#include <unistd.h>

#include "../check.h"

enum { TIMERS = 80, APART_MS = 100, LATE_MS = 40 };

static long long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const long long began = now_ms();
  int timers[TIMERS], read_yet[TIMERS] = {0};
  for (int i = 0; i < TIMERS; i++) {
    const long long due = began + APART_MS * (i + 1);
    const struct itimerspec spec = {{0, 0}, {due / 1000, due % 1000 * 1000000}};
    timers[i] = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    CHECK(timers[i] >= 0 && timerfd_settime(timers[i], TFD_TIMER_ABSTIME, &spec, NULL) == 0);
  }
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int i = 0; i < TIMERS; i++) {
      const long long due = began + APART_MS * (i + 1), now = now_ms();
      uint64_t count;
      if (read_yet[i] || now < due + LATE_MS) continue;
      CHECK(read(timers[i], &count, 8) == 8 && count == 1);
      read_yet[i] = 1;
    }
    mix_int(step);
  }
  finish();
  return 0;
}
