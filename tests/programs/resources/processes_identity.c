// SPDX-License-Identifier: Apache-2.0
// Row: a program that has given up a privilege: its effective group, or a capability
// Refused: has changed who it runs as
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  // Who may do neither has no privilege to give up; what remains is a flag that can only be set.
  if (geteuid() == 0) CHECK(setegid(65534) == 0);
  else CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0);
  const gid_t group = getegid();
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(getegid() == group);
    mix_int(step);
  }
  finish();
  return 0;
}
