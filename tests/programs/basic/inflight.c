// SPDX-License-Identifier: Apache-2.0
// Messages that are under way when the step's pause (and the checkpoint) comes: sent long before
// they are received, on two communicators, into derived types, with wildcards, statuses ignored,
// receives posted before and after, and MPI_PROC_NULL among the peers.
#include "../check.h"

enum { kWave = 6, kBig = 20000 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Comm copy;
  MPI_Datatype every_second;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Type_vector(4, 1, 2, MPI_INT, &every_second);
  MPI_Type_commit(&every_second);
  static int big_out[kBig], big_in[kBig];
  for (int step = 1; step <= o.steps; step++) {
    MPI_Request sends[kWave + 3], posted;
    int values[kWave], block[4], spread[8], early = -1, none = step;
    MPI_Irecv(&early, 1, MPI_INT, previous, 50, copy, &posted);
    for (int i = 0; i < kWave; i++) {
      values[i] = step * 1000 + rank * 10 + i;
      MPI_Isend(&values[i], 1, MPI_INT, next, i % 2, i < 3 ? MPI_COMM_WORLD : copy, &sends[i]);
    }
    for (int i = 0; i < 4; i++) block[i] = step + rank + i;
    MPI_Isend(block, 4, MPI_INT, next, 20, MPI_COMM_WORLD, &sends[kWave]);
    for (int i = 0; i < kBig; i++) big_out[i] = i * step + rank;
    MPI_Isend(big_out, kBig, MPI_INT, next, 30, copy, &sends[kWave + 1]);  // rendezvous
    MPI_Isend(&none, 1, MPI_INT, MPI_PROC_NULL, 1, copy, &sends[kWave + 2]);
    MPI_Send(&none, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    MPI_Send(&step, 1, MPI_INT, next, 50, copy);

    report_step(step, o.step_ms);  // everything above is in flight here

    MPI_Status status;
    for (int i = 0; i < 3; i++) {  // same source and communicator: order is kept
      int got = -1;
      MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, i % 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      CHECK(got == step * 1000 + previous * 10 + (i == 0 ? 0 : i == 1 ? 1 : 2));
      mix_int(got);
    }
    for (int i = 3; i < kWave; i++) {
      int got = -1, count = 0;
      MPI_Recv(&got, 1, MPI_INT, previous, i % 2, copy, &status);
      MPI_Get_count(&status, MPI_INT, &count);
      CHECK(count == 1 && status.MPI_TAG == i % 2);
      CHECK(got == step * 1000 + previous * 10 + i);
      mix_int(got);
    }
    memset(spread, 0, sizeof spread);
    MPI_Recv(spread, 1, every_second, previous, 20, MPI_COMM_WORLD, &status);
    for (int i = 0; i < 4; i++) CHECK(spread[2 * i] == step + previous + i);
    MPI_Recv(&none, 1, MPI_INT, MPI_PROC_NULL, 3, copy, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG && none == step);
    int count = -1;
    MPI_Probe(MPI_ANY_SOURCE, 30, copy, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == kBig && status.MPI_SOURCE == previous);
    MPI_Recv(big_in, kBig, MPI_INT, previous, 30, copy, MPI_STATUS_IGNORE);
    for (int i = 0; i < kBig; i++) CHECK(big_in[i] == i * step + previous);
    MPI_Wait(&posted, MPI_STATUS_IGNORE);
    CHECK(early == step);
    MPI_Waitall(kWave + 3, sends, MPI_STATUSES_IGNORE);
    mix(spread, sizeof spread);
  }
  MPI_Type_free(&every_second);
  MPI_Comm_free(&copy);
  finish();
  return 0;
}
