// SPDX-License-Identifier: Apache-2.0
// A message goes around the ring of all ranks, again and again. Rank 0 prints for each turn when it
// ended, in seconds since 1970, and how long it took, in microseconds, and rests between turns.
//
// Usage: ring BYTES REST_MS. It ends when it is ended.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

// Returns how long the message took, in seconds; of rank 0 only.
static double turn(char *message, int bytes, int rank, int size) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const double began = seconds(CLOCK_MONOTONIC);
  if (rank == 0) MPI_Send(message, bytes, MPI_CHAR, next, 0, MPI_COMM_WORLD);
  MPI_Recv(message, bytes, MPI_CHAR, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank != 0) MPI_Send(message, bytes, MPI_CHAR, next, 0, MPI_COMM_WORLD);
  return seconds(CLOCK_MONOTONIC) - began;
}

static void check(const char *message, int bytes, unsigned char expected) {
  for (int i = 0; i < bytes; i++) {
    if ((unsigned char)message[i] == expected) continue;
    fprintf(stderr, "ring: byte %d is %d instead of %d\n", i, (unsigned char)message[i], expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const int bytes = atoi(argv[1]);
  const struct timespec rest = {0, atoi(argv[2]) * 1000000L};
  char *message = malloc(bytes);
  for (unsigned char number = 0;; number++) {
    if (rank == 0)
      for (int i = 0; i < bytes; i++) message[i] = (char)number;
    const double took = turn(message, bytes, rank, size);
    check(message, bytes, number);
    if (rank == 0) {
      printf("%.6f %.2f\n", seconds(CLOCK_REALTIME), took * 1e6);
      fflush(stdout);
    }
    nanosleep(&rest, NULL);
  }
}
