// SPDX-License-Identifier: Apache-2.0
// Row: system(), which inherits the program's open files
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int log = open(own_path("log"), O_RDWR | O_CREAT | O_APPEND, 0644);
  CHECK(log >= 0 && dup2(log, 9) == 9);
  for (int step = 1; step <= o.steps; step++) {
    char command[128];
    snprintf(command, sizeof command, "echo step %d >&9; exit %d", step, step % 7);
    CHECK(system(command) == (step % 7) << 8);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  FILE *back = fopen(own_path("log"), "r");
  int value, last = 0;
  while (fscanf(back, " step %d", &value) == 1) {
    CHECK(value == ++last);
    mix_int(value);
  }
  CHECK(last == o.steps);
  finish();
  return 0;
}
