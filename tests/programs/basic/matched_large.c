// SPDX-License-Identifier: Apache-2.0
// Matched probes of messages of more than 2 GiB, received by MPI_Mrecv and MPI_Imrecv where the
// program wants them. The sender's datatype shows the same memory many times. Step 1 is reported
// between the probe of the first and its receive.
#include "../check.h"

enum { kPiece = 1 << 20, kPieces = 2049 };

static char *memory;

static void send(MPI_Datatype piece, int value) {
  MPI_Datatype large;
  MPI_Type_create_hvector(kPieces, 1, 0, piece, &large);
  MPI_Type_commit(&large);
  memset(memory, value, kPiece);
  MPI_Send(memory, 1, large, 0, 7, MPI_COMM_WORLD);
  MPI_Type_free(&large);
}

static void receive(MPI_Datatype piece, int value, int step_ms) {
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Request request;
  MPI_Status status;
  MPI_Count bytes = 0;
  int flag = 0;
  memory[0] = memory[(size_t)kPiece * kPieces - 1] = -1;
  if (value == 1) MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
  while (value != 1 && !flag) MPI_Improbe(1, 7, MPI_COMM_WORLD, &flag, &message, &status);
  MPI_Get_elements_x(&status, MPI_BYTE, &bytes);
  CHECK(bytes == (MPI_Count)kPiece * kPieces);
  if (value == 1) {
    report_step(1, step_ms);
    MPI_Mrecv(memory, kPieces, piece, &message, &status);
  } else {
    MPI_Imrecv(memory, kPieces, piece, &message, &request);
    MPI_Wait(&request, &status);
  }
  CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == 1 && status.MPI_TAG == 7);
  CHECK(memory[0] == value && memory[(size_t)kPiece * kPieces - 1] == value);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 1, 0);
  CHECK(ranks == 2);
  MPI_Datatype piece;
  MPI_Type_contiguous(kPiece, MPI_BYTE, &piece);
  MPI_Type_commit(&piece);
  memory = malloc(rank == 0 ? (size_t)kPiece * kPieces : kPiece);
  CHECK(memory);
  for (int value = 1; value <= 2; value++) {
    if (rank == 1) send(piece, value);
    if (rank == 0) receive(piece, value, o.step_ms);
  }
  free(memory);
  MPI_Type_free(&piece);
  finish();
  return 0;
}
