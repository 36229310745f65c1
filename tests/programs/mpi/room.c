// SPDX-License-Identifier: Apache-2.0
// Rank 1 owes rank 2 a barrier and cannot continue before rank 0, which computes or has parked,
// makes room for a message that is too large to be sent unasked. By step: MPI_Send, MPI_Isend and
// MPI_Wait, MPI_Isend and MPI_Test, MPI_Bsend and MPI_Buffer_detach, MPI_Isend and a small message
// behind it, which rank 0 receives first.
#include "../check.h"

enum { kInts = 1 << 18, kWays = 5, kOvertaken = 4 };

static void give(int way, const int *message) {
  MPI_Request request;
  int done = 0, room;
  void *buffer;
  switch (way) {
    case 0: MPI_Send(message, kInts, MPI_INT, 0, 1, MPI_COMM_WORLD); break;
    case 3:
      MPI_Pack_size(kInts, MPI_INT, MPI_COMM_WORLD, &room);
      room += MPI_BSEND_OVERHEAD;
      MPI_Buffer_attach(buffer = malloc((size_t)room), room);
      MPI_Bsend(message, kInts, MPI_INT, 0, 1, MPI_COMM_WORLD);
      MPI_Buffer_detach(&buffer, &room);
      free(buffer);
      break;
    default:
      MPI_Isend(message, kInts, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
      if (way == kOvertaken) MPI_Send(&way, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
      while (way == 2 && !done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm others;
  int *const message = malloc(kInts * sizeof *message);
  CHECK(ranks == 3);
  MPI_Comm_split(MPI_COMM_WORLD, rank != 0, rank, &others);
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < kInts; i++) message[i] = rank == 1 ? step + i : 0;
    int overtakes = kOvertaken;
    if (rank == 0 && step % kWays == kOvertaken)
      MPI_Recv(&overtakes, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(overtakes == kOvertaken);
    say_step(step);
    if (rank == 0) pause_ms(o.step_ms);
    if (rank == 1) give(step % kWays, message);
    if (rank != 0) MPI_Barrier(others);
    if (rank == 0)
      MPI_Recv(message, kInts, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < kInts; i++) CHECK(message[i] == (rank == 2 ? 0 : step + i));
    mix(message, 4096);
    hold_step(step);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Comm_free(&others);
  free(message);
  finish();
  return 0;
}
