// SPDX-License-Identifier: Apache-2.0
// Row: popen() in both directions, read to the end and closed
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    char command[64];
    snprintf(command, sizeof command, "expr %d '*' %d", step, rank + 3);
    FILE *out = popen(command, "r");
    int value = 0;
    CHECK(out && fscanf(out, "%d", &value) == 1 && value == step * (rank + 3));
    CHECK(pclose(out) == 0);
    FILE *in = popen("read word; test \"$word\" = fermata", "w");
    CHECK(in && fputs("fermata\n", in) >= 0 && pclose(in) == 0);
    mix_int(value);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
