// SPDX-License-Identifier: Apache-2.0
// Row: System V shared memory that rank 0 alone attaches; rank --size makes it
#include <sys/ipc.h>
#include <sys/shm.h>

#include "memory_shared.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int id = -1;
  if (rank == o.size)
    CHECK((id = shmget(IPC_PRIVATE, sizeof(struct shared), IPC_CREAT | 0600)) >= 0);
  MPI_Bcast(&id, 1, MPI_INT, o.size, MPI_COMM_WORLD);
  static struct shared private;
  struct shared *s = rank == 0 ? shmat(id, NULL, 0) : &private;
  CHECK(s != (void *)-1);
  for (int step = 1; step <= o.steps; step++) shared_step(s, step, o, 1);
  report_step(o.steps, 0);
  if (rank == 0) CHECK(shmctl(id, IPC_RMID, NULL) == 0);
  finish();
}
