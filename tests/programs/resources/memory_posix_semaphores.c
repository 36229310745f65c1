// SPDX-License-Identifier: Apache-2.0
// Row: named POSIX semaphores by which the ranks of a host take turns
#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int pid = (int)getpid();
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  sem_t *turn[64];
  CHECK(ranks <= 64);
  char name[64];
  for (int r = 0; r < ranks; r++) {
    snprintf(name, sizeof name, "/fermata-test-turn.%d.%d", pid, r);
    turn[r] = sem_open(name, O_CREAT, 0600, r == 0);  // rank 0 begins
    CHECK(turn[r] != SEM_FAILED);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (int r = 0; r < ranks; r++) {
    snprintf(name, sizeof name, "/fermata-test-turn.%d.%d", pid, r);
    if (rank == 0) CHECK(sem_unlink(name) == 0);
  }
  for (int step = 1; step <= o.steps; step++) {
    CHECK(sem_wait(turn[rank]) == 0);  // most of the time, all ranks but one sleep here
    report_step(step, o.step_ms / 2);
    pause_ms(o.step_ms / 2);
    CHECK(sem_post(turn[(rank + 1) % ranks]) == 0);
    mix_int(step);
    if (step % 4 == 0) MPI_Barrier(MPI_COMM_WORLD);
  }
  finish();
}
