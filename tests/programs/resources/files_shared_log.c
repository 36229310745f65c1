// SPDX-License-Identifier: Apache-2.0
// Row: one log that every rank appends to
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  parse_directory(argc, argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int log = open(shared_path("log"), O_WRONLY | O_CREAT | O_APPEND, 0644);
  CHECK(log >= 0);
  for (int step = 1; step <= o.steps; step++) {
    char line[32];
    const int bytes = snprintf(line, sizeof line, "%4d %4d\n", step, rank);
    CHECK(write(log, line, (size_t)bytes) == bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  // The ranks of one step come in any order, the steps one after the other, each line once.
  FILE *back = fopen(shared_path("log"), "r");
  CHECK(back);
  for (int step = 1; step <= o.steps; step++) {
    long long sum = 0;
    for (int i = 0; i < ranks; i++) {
      int of_step = 0, of_rank = 0;
      CHECK(fscanf(back, "%d %d", &of_step, &of_rank) == 2 && of_step == step);
      sum += 1LL << (8 * of_rank);
    }
    mix_int(sum);
  }
  int more;
  CHECK(fscanf(back, "%d", &more) == EOF);
  finish();
  return 0;
}
