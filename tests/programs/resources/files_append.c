// SPDX-License-Identifier: Apache-2.0
// Row: a log opened for appending, flushed now and then: no line is lost, none comes twice
#include <fcntl.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  FILE *log = fopen(own_path("log"), "a");
  CHECK(log);
  for (int step = 1; step <= o.steps; step++) {
    for (int line = 0; line < 20; line++)
      fprintf(log, "rank %d step %d line %d\n", rank, step, line);
    if (step % 3 == 0) fflush(log);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  CHECK(fclose(log) == 0);
  FILE *back = fopen(own_path("log"), "r");
  char line[128], expected[128];
  for (int i = 0; i < o.steps * 20; i++) {
    snprintf(expected, sizeof expected, "rank %d step %d line %d\n", rank, i / 20 + 1, i % 20);
    CHECK(fgets(line, sizeof line, back) && !strcmp(line, expected));
    mix(line, strlen(line));
  }
  CHECK(!fgets(line, sizeof line, back));
  finish();
  return 0;
}
