// SPDX-License-Identifier: Apache-2.0
// Row: System V semaphores
// Refused: System V semaphores cannot be saved
#include <sys/ipc.h>
#include <sys/sem.h>

#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  CHECK(id >= 0);
  for (int i = 0; i < 300; i++) {  // this one is not forgotten over those that came and went
    const int other = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    CHECK(other >= 0 && semctl(other, 0, IPC_RMID) == 0);
  }
  for (int step = 1; step <= o.steps; step++) {
    struct sembuf up = {0, 1, 0};
    CHECK(semop(id, &up, 1) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(semctl(id, 0, GETVAL) == step);
    mix_int(step);
  }
  CHECK(semctl(id, 0, IPC_RMID) == 0);
  finish();
}
