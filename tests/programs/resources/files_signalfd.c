// SPDX-License-Identifier: Apache-2.0
// Row: signals read from a descriptor
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  const int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  CHECK(signals >= 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    struct signalfd_siginfo info;
    CHECK(read(signals, &info, sizeof info) == -1 && errno == EAGAIN);
    const int wanted = step % 2 ? SIGUSR1 : SIGUSR2;
    CHECK(raise(wanted) == 0);
    CHECK(read(signals, &info, sizeof info) == sizeof info && (int)info.ssi_signo == wanted);
    mix_int(wanted);
  }
  finish();
  return 0;
}
