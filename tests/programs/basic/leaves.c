// SPDX-License-Identifier: Apache-2.0
// Leaves without MPI_Finalize after its last step: rank 1 alone, or all ranks with --all. --how:
// exit (0, by _exit), return (from main, 0), abort (MPI_Abort with code 0) or kill (SIGKILL). The
// others come to MPI_Finalize.
#include <signal.h>

#include "../check.h"

static const char *text_option(int argc, char **argv, const char *name) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return argv[i + 1];
  return "";
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 3, 0);
  const char *const how = text_option(argc, argv, "--how");
  start(&argc, &argv);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1 || has_option(argc, argv, "--all")) {
    if (!strcmp(how, "exit")) _exit(0);
    if (!strcmp(how, "return")) return 0;
    if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 0);
    if (!strcmp(how, "kill")) raise(SIGKILL);
  }
  MPI_Finalize();
  return 0;
}
