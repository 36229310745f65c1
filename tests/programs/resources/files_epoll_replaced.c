// SPDX-License-Identifier: Apache-2.0
// Row: an epoll whose member was closed and has a duplicate, and a successor of its number
// Refused: an epoll that watches what was descriptor
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int first = eventfd(0, EFD_NONBLOCK), kept = dup(first), epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, first, &event) == 0 && close(first) == 0);
  const int second = eventfd(0, EFD_NONBLOCK);
  CHECK(second == first);
  for (int step = 1; step <= o.steps; step++) {
    uint64_t one = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(write(second, &one, 8) == 8 && epoll_wait(epoll, &event, 1, 0) == 0);
    CHECK(write(kept, &one, 8) == 8 && epoll_wait(epoll, &event, 1, 0) == 1);
    CHECK(read(second, &one, 8) == 8 && read(kept, &one, 8) == 8);
    mix_int(step);
  }
  finish();
  return 0;
}
