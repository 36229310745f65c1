// SPDX-License-Identifier: Apache-2.0
// Row: a descriptor of a process (pidfd)
// Refused: pidfd
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  CHECK(fd >= 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) == 0);  // it lives
    CHECK(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0);
    mix_int(step);
  }
  finish();
  return 0;
}
