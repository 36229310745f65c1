// SPDX-License-Identifier: Apache-2.0
// Row: what is registered with membarrier(2): private, with SYNC_CORE, with RSEQ, and global
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

static int barrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0) < 0 ? errno : 0;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const struct {
    int enroll, use;
  } kinds[] = {
      {MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, MEMBARRIER_CMD_PRIVATE_EXPEDITED},
      {MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
       MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE},
      {MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ},
      {MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, MEMBARRIER_CMD_GLOBAL_EXPEDITED}};
  enum { kGetRegistrations = 1 << 9 };  // Linux 6.3
  int has[4];
  for (int i = 0; i < 4; i++) has[i] = barrier(kinds[i].enroll) == 0;
  const long known = syscall(SYS_membarrier, kGetRegistrations, 0, 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int i = 0; i < 4; i++) CHECK(!has[i] || barrier(kinds[i].use) == 0);
    CHECK(known < 0 || syscall(SYS_membarrier, kGetRegistrations, 0, 0) == known);
    mix_int(step);
  }
  finish();
  return 0;
}
