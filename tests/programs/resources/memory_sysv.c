// SPDX-License-Identifier: Apache-2.0
// Row: System V shared memory between ranks; the id stays good for shmctl and for attaching later
#include <sys/ipc.h>
#include <sys/shm.h>

#include "memory_shared.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int id = -1;
  if (rank == 0) CHECK((id = shmget(IPC_PRIVATE, sizeof(struct shared), IPC_CREAT | 0600)) >= 0);
  MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
  struct shared *s = shmat(id, NULL, 0);
  CHECK(s != (void *)-1);
  for (int step = 1; step <= o.steps; step++) {
    shared_step(s, step, o, ranks);
    struct shmid_ds info;
    CHECK(shmctl(id, IPC_STAT, &info) == 0);
    CHECK(info.shm_segsz == sizeof *s);
    if (step % 3 != rank % 3) continue;
    struct shared *again = shmat(id, NULL, 0);
    CHECK(again != (void *)-1 && again != s);
    CHECK(again->ticks[rank] == s->ticks[rank]);
    CHECK(shmdt(s) == 0);
    s = again;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK(shmctl(id, IPC_RMID, NULL) == 0);
  finish();
}
