// SPDX-License-Identifier: Apache-2.0
// Row: timers that are descriptors: periodic, one far away, one expired and not read
#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int periodic = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  const int distant = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC);
  const int expired = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  const struct itimerspec each = {{0, 10000000}, {0, 10000000}};
  const struct itimerspec far = {{7, 0}, {5000, 0}}, soon = {{0, 0}, {0, 1}};
  CHECK(timerfd_settime(periodic, 0, &each, NULL) == 0);
  CHECK(timerfd_settime(distant, 0, &far, NULL) == 0);
  CHECK(timerfd_settime(expired, 0, &soon, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    uint64_t ticks = 0;
    const double begun = now_seconds();
    while (read(periodic, &ticks, 8) != 8 && now_seconds() < begun + 5) pause_ms(1);
    CHECK(ticks >= 1);
    struct itimerspec left;
    CHECK(timerfd_gettime(distant, &left) == 0 && left.it_interval.tv_sec == 7);
    CHECK(left.it_value.tv_sec > 4000 && left.it_value.tv_sec < 5000);
    mix_int(step);
  }
  uint64_t ticks = 0;
  CHECK(read(expired, &ticks, 8) == 8 && ticks == 1);
  CHECK(read(expired, &ticks, 8) == -1 && errno == EAGAIN);
  finish();
  return 0;
}
