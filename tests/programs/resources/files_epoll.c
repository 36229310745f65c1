// SPDX-License-Identifier: Apache-2.0
// Row: epoll with a pipe, an event counter and another epoll as members
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../check.h"

static void add(int epoll, int fd, uint32_t events, uint64_t data) {
  struct epoll_event event = {.events = events, .data.u64 = data};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int line[2];
  CHECK(pipe(line) == 0);
  const int outer = epoll_create1(EPOLL_CLOEXEC), inner = epoll_create1(0), counter = eventfd(0, 0);
  add(outer, line[0], EPOLLIN, 0xfeed000000000001u);
  add(outer, inner, EPOLLIN, 0xfeed000000000002u);
  add(inner, counter, EPOLLIN | EPOLLONESHOT, 3);
  for (int step = 1; step <= o.steps; step++) {
    uint64_t value = (uint64_t)step;
    CHECK(write(step % 2 ? line[1] : counter, &value, 8) == 8);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    struct epoll_event events[4];
    CHECK(epoll_wait(outer, events, 4, 5000) == 1);
    CHECK(events[0].data.u64 == (step % 2 ? 0xfeed000000000001u : 0xfeed000000000002u));
    if (step % 2 == 0) {
      CHECK(epoll_wait(inner, events, 4, 0) == 1 && events[0].data.u64 == 3);
      CHECK(epoll_wait(inner, events, 4, 0) == 0);  // disarmed
      struct epoll_event again = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 3};
      CHECK(epoll_ctl(inner, EPOLL_CTL_MOD, counter, &again) == 0);
    }
    CHECK(read(step % 2 ? line[0] : counter, &value, 8) == 8 && value == (uint64_t)step);
    CHECK(epoll_wait(outer, events, 4, 0) == 0);
    mix_int((long long)value);
  }
  finish();
  return 0;
}
