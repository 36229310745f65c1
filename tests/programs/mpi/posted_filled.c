// SPDX-License-Identifier: Apache-2.0
// Receives posted before the checkpoint: one is filled while the ranks drain (its message is sent
// just before the pause), one only after the restart, one is cancelled, and two wait for the same
// sender in the order they were posted.
#include "../check.h"

enum { kLong = 30000 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  static int long_out[kLong], long_in[kLong];
  for (int step = 1; step <= o.steps; step++) {
    int before = -1, after = -1, first = -1, second = -1, never = -1;
    MPI_Request posted[6], send;
    MPI_Irecv(&before, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, &posted[0]);
    MPI_Irecv(&after, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &posted[1]);
    MPI_Irecv(&first, 1, MPI_INT, previous, 3, MPI_COMM_WORLD, &posted[2]);
    MPI_Irecv(&second, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &posted[3]);
    MPI_Irecv(&never, 1, MPI_INT, previous, 4, MPI_COMM_WORLD, &posted[4]);
    MPI_Irecv(long_in, kLong, MPI_INT, previous, 5, MPI_COMM_WORLD, &posted[5]);
    for (int i = 0; i < kLong; i++) long_out[i] = i * step + rank;
    const int value = 10 * step + rank, later = value + 1000;
    MPI_Isend(long_out, kLong, MPI_INT, next, 5, MPI_COMM_WORLD, &send);
    MPI_Send(&value, 1, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Send(&value, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    MPI_Send(&later, 1, MPI_INT, next, 2, MPI_COMM_WORLD);
    MPI_Send(&later, 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    MPI_Status status[6];
    int cancelled = 0;
    MPI_Cancel(&posted[4]);
    MPI_Waitall(6, posted, status);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Test_cancelled(&status[4], &cancelled);
    CHECK(cancelled && never == -1);
    const int theirs = 10 * step + previous;
    CHECK(before == theirs && after == theirs + 1000);
    CHECK(first == theirs && second == theirs + 1000);
    for (int i = 0; i < kLong; i++) CHECK(long_in[i] == i * step + previous);
    mix_int(before);
    mix_int(second);
  }
  finish();
  return 0;
}
