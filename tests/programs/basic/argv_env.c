// SPDX-License-Identifier: Apache-2.0
// argv and environ, and what the loader preloaded: the program must see what it was started with,
// before and after a restart. Expects the arguments `one "two words" ""` first and the variable
// CHECK_ENVIRONMENT=kept; nothing of the checkpointing may show in LD_PRELOAD.
#include "../check.h"

extern char **environ;

static void check_all(int argc, char **argv) {
  CHECK(argc >= 4 && !strcmp(argv[1], "one") && !strcmp(argv[2], "two words") && !*argv[3]);
  CHECK(argv[argc] == NULL);
  const char *kept = getenv("CHECK_ENVIRONMENT");
  CHECK(kept && !strcmp(kept, "kept"));
  CHECK(!getenv("LD_PRELOAD"));
  for (char **e = environ; *e; e++) CHECK(strncmp(*e, "LD_PRELOAD=", 11) != 0);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 6, 0);
  for (int step = 1; step <= o.steps; step++) {
    check_all(argc, argv);
    for (int i = 1; i < 4; i++) mix(argv[i], strlen(argv[i]) + 1);
    if (step == 2) setenv("CHECK_ADDED", "later", 1);
    if (step > 2) CHECK(getenv("CHECK_ADDED") && !strcmp(getenv("CHECK_ADDED"), "later"));
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
