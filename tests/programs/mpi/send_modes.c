// SPDX-License-Identifier: Apache-2.0
// The four send modes with nobody receiving yet when the checkpoint comes: synchronous sends that
// cannot end before they are matched, buffered sends from an attached buffer, ready sends.
#include "../check.h"

enum { kBuffer = 1 << 16 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  char *const buffer = malloc(kBuffer);
  MPI_Buffer_attach(buffer, kBuffer);
  for (int step = 1; step <= o.steps; step++) {
    int out[5], in[5] = {0};
    MPI_Request pending[3];
    for (int i = 0; i < 5; i++) out[i] = 100 * step + 10 * rank + i;
    MPI_Irecv(&in[3], 1, MPI_INT, previous, 3, MPI_COMM_WORLD, &pending[2]);
    MPI_Barrier(MPI_COMM_WORLD);  // the receive that the ready send needs is posted
    MPI_Issend(&out[0], 1, MPI_INT, next, 0, MPI_COMM_WORLD, &pending[0]);
    MPI_Ibsend(&out[1], 1, MPI_INT, next, 1, MPI_COMM_WORLD, &pending[1]);
    MPI_Bsend(&out[2], 1, MPI_INT, next, 2, MPI_COMM_WORLD);
    MPI_Rsend(&out[3], 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int tag = 2; tag >= 0; tag--)
      MPI_Recv(&in[tag], 1, MPI_INT, previous, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank % 2 == 0) MPI_Ssend(&out[4], 1, MPI_INT, next, 4, MPI_COMM_WORLD);
    MPI_Recv(&in[4], 1, MPI_INT, previous, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank % 2 == 1) MPI_Ssend(&out[4], 1, MPI_INT, next, 4, MPI_COMM_WORLD);
    MPI_Waitall(3, pending, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 5; i++) CHECK(in[i] == 100 * step + 10 * previous + i);
    mix(in, sizeof in);
  }
  void *detached = NULL;
  int bytes = 0;
  MPI_Buffer_detach(&detached, &bytes);
  CHECK(detached == buffer && bytes == kBuffer);
  finish();
  return 0;
}
