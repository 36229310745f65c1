// SPDX-License-Identifier: Apache-2.0
// Rank 0 reads numbers from its standard input, which is a file: one number a step, then the end.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    int value = step;
    if (rank == 0) CHECK(scanf("%d", &value) == 1 && value == step);
    mix_int(value);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  char last[8];
  if (rank == 0) CHECK(scanf("%7s", last) == 1 && !strcmp(last, "end") && getchar() == '\n');
  if (rank == 0) CHECK(getchar() == EOF);
  finish();
  return 0;
}
