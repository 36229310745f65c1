// SPDX-License-Identifier: Apache-2.0
// Row: a child process that is alive
// Refused: (sleep) runs and cannot be saved
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pid_t child = fork();
  if (child == 0) {
    execlp("sleep", "sleep", "600", NULL);
    _exit(99);
  }
  CHECK(child > 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, 7 * o.step_ms);  // a refusal takes a second
    CHECK(kill(child, 0) == 0);
    mix_int(step);
  }
  int status = 0;
  CHECK(kill(child, SIGTERM) == 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  finish();
  return 0;
}
