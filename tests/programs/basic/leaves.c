// SPDX-License-Identifier: Apache-2.0
// Leaves without MPI_Finalize after its last step: rank 1 alone, or all ranks with --all. --how:
// exit (0, by _exit), return (from main, 0), abort (MPI_Abort with code 0), fail (MPI_Abort with
// code 3), kill (SIGKILL), or found (SIGKILL, which rank 0 finds out at once, and fails). The
// others come to MPI_Finalize.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>

#include "../check.h"

static const char *text_option(int argc, char **argv, const char *name) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return "";
}

// A file that a rank has locked while it lives.
static int lock_of(const char *name) {
  const int file = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  CHECK(file >= 0);
  CHECK(flock(file, LOCK_EX) == 0);
  return file;
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 3, 0);
  const char *const how = text_option(argc, argv, "--how");
  start(&argc, &argv);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  const int found = !strcmp(how, "found");
  const int lock = found && rank == 1 ? lock_of("alive") : -1;
  MPI_Barrier(MPI_COMM_WORLD);
  if (found && rank == 0) {
    lock_of("alive");
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  if (rank == 1 || has_option(argc, argv, "--all")) {
    if (!strcmp(how, "exit")) _exit(0);
    if (!strcmp(how, "return")) return 0;
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 0);
    if (!strcmp(how, "fail")) MPI_Abort(MPI_COMM_WORLD, 3);
    if (found) {  // whoever waits for it is to hear of it later than rank 0
      char line[80];
      snprintf(line, sizeof line, "(sleep 0.5; kill -CONT %d) &", (int)getppid());
      CHECK(system(line) == 0);
      CHECK(kill(getppid(), SIGSTOP) == 0);
    }
    if (found || !strcmp(how, "kill")) raise(SIGKILL);
  }
  if (lock >= 0) close(lock);
  MPI_Finalize();
  return 0;
}
