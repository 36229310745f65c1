// SPDX-License-Identifier: Apache-2.0
// Persistent requests of every mode: some inactive, some started and some finished but not yet
// waited for when the checkpoint comes; a datatype freed while they use it.
#include "../check.h"

enum { kModes = 4 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int out[kModes][3], in[kModes][3];
  MPI_Request request[2 * kModes];
  MPI_Datatype triple;
  static char buffer[1 << 14];
  MPI_Buffer_attach(buffer, sizeof buffer);
  MPI_Type_contiguous(3, MPI_INT, &triple);
  MPI_Type_commit(&triple);
  MPI_Send_init(out[0], 1, triple, next, 0, MPI_COMM_WORLD, &request[kModes]);
  MPI_Ssend_init(out[1], 1, triple, next, 1, MPI_COMM_WORLD, &request[kModes + 1]);
  MPI_Bsend_init(out[2], 1, triple, next, 2, MPI_COMM_WORLD, &request[kModes + 2]);
  MPI_Rsend_init(out[3], 1, triple, next, 3, MPI_COMM_WORLD, &request[kModes + 3]);
  for (int i = 0; i < kModes; i++)
    MPI_Recv_init(in[i], 1, triple, i % 2 ? MPI_ANY_SOURCE : previous, i, MPI_COMM_WORLD,
                  &request[i]);
  MPI_Type_free(&triple);
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < kModes; i++)
      for (int k = 0; k < 3; k++) out[i][k] = 100 * step + 10 * rank + i + k, in[i][k] = -1;
    MPI_Startall(kModes - 1, request + 1);  // the receives but the first
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Startall(kModes, request + kModes);
    report_step(step, o.step_ms);  // messages 1..3 may have come, the first has no receive yet
    MPI_Start(&request[0]);
    MPI_Status status[2 * kModes];
    MPI_Waitall(2 * kModes, request, status);
    for (int i = 0; i < kModes; i++) {
      int count = -1;
      MPI_Get_count(&status[i], MPI_INT, &count);
      CHECK(count == 3 && status[i].MPI_SOURCE == previous && status[i].MPI_TAG == i);
      CHECK(request[i] != MPI_REQUEST_NULL && request[kModes + i] != MPI_REQUEST_NULL);
      for (int k = 0; k < 3; k++) CHECK(in[i][k] == 100 * step + 10 * previous + i + k);
    }
    mix(in, sizeof in);
  }
  for (int i = 0; i < 2 * kModes; i++) MPI_Request_free(&request[i]);
  CHECK(request[0] == MPI_REQUEST_NULL);
  void *detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
  finish();
  return 0;
}
