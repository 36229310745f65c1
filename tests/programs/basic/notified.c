// SPDX-License-Identifier: Apache-2.0
// Runs until each rank has been sent SIGUSR1, as batch systems do before the time is over.
#include <signal.h>

#include "../check.h"

static volatile sig_atomic_t notified;

static void on_notice(int signal) {
  (void)signal;
  notified = 1;
}

int main(int argc, char **argv) {
  struct sigaction action = {.sa_handler = on_notice, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 2000, 0);
  int all = 0;
  for (int step = 1; !all && step <= o.steps; step++) {
    report_step(step, o.step_ms);
    const int mine = notified;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
  }
  CHECK(all);
  finish();
  return 0;
}
