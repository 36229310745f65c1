// SPDX-License-Identifier: Apache-2.0
// Row: a child is ended by a signal, as it starts with its parent's mask and default actions
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    const pid_t child = fork();
    if (child == 0) {
      execlp("sleep", "sleep", "600", NULL);
      _exit(99);
    }
    int status = 0;
    CHECK(child > 0 && kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    mix_int(status);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
