// SPDX-License-Identifier: Apache-2.0
// More persistent collective calls on one communicator than anyone would think of, made and freed
// again and again. An MPI that spends something on each and does not take it back runs out of it.
#include "../check.h"
#include "../persistent.h"

enum { kCalls = 150, kRounds = 4 };

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  static MPI_Request request[kCalls];
  static int sums[kCalls];
  int mine = 0;
  for (int step = 1; step <= o.steps; step++) {
    MPI_Comm comm;
    for (int round = 1; round <= kRounds; round++) {
      MPI_Comm_dup(MPI_COMM_WORLD, &comm);
      for (int i = 0; i < kCalls; i++)
        PERSISTENT(Allreduce_init)(&mine, &sums[i], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                                   &request[i]);
      mine = 10 * step + round + rank;
      MPI_Startall(kCalls, request);
      if (round == kRounds) report_step(step, o.step_ms);
      MPI_Waitall(kCalls, request, MPI_STATUSES_IGNORE);
      const int sum = ranks * (10 * step + round) + ranks * (ranks - 1) / 2;
      for (int i = 0; i < kCalls; i++) CHECK(sums[i] == sum);
      for (int i = 0; i < kCalls; i++) MPI_Request_free(&request[i]);
      if (round % 2) {  // freed, and made once more
        PERSISTENT(Barrier_init)(comm, MPI_INFO_NULL, &request[0]);
        MPI_Request_free(&request[0]);
      }
      MPI_Comm_free(&comm);
      mix_int(sum);
    }
  }
  finish();
}
