// SPDX-License-Identifier: Apache-2.0
// Row: arguments and environment, also variables that the program has set and removed
// Environment: GIVEN=outside
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  CHECK(getenv("GIVEN") && !strcmp(getenv("GIVEN"), "outside"));
  CHECK(setenv("MADE", "inside", 1) == 0 && getenv("HOME") && unsetenv("HOME") == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(argc >= 7 && argv[argc] == NULL && !strcmp(argv[1], "--steps"));
    for (int i = 1; i < argc; i++)
      if (i != 4 && i != 6) mix(argv[i], strlen(argv[i]));  // not the pause and the directory
    CHECK(!strcmp(getenv("GIVEN"), "outside") && !strcmp(getenv("MADE"), "inside"));
    CHECK(!getenv("HOME"));
    // A child sees them too.
    if (step % 5 == 0) CHECK(system("test \"$GIVEN$MADE$HOME\" = outsideinside") == 0);
  }
  finish();
  return 0;
}
