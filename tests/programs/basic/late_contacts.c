// SPDX-License-Identifier: Apache-2.0
// All pairs of ranks exchange their first messages right before MPI_Finalize, in which connections
// may still be coming up then.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  (void)parse_options(argc, argv, 1, 0);
  enum { MOST = 64 };
  int sent[MOST], received[MOST], requests = 0;
  MPI_Request request[2 * MOST];
  CHECK(ranks <= MOST);
  for (int other = 0; other < ranks; other++) {
    if (other == rank) continue;
    sent[other] = 100 * rank + other;
    received[other] = -1;
    MPI_Irecv(&received[other], 1, MPI_INT, other, 1, MPI_COMM_WORLD, &request[requests++]);
    MPI_Isend(&sent[other], 1, MPI_INT, other, 1, MPI_COMM_WORLD, &request[requests++]);
  }
  MPI_Waitall(requests, request, MPI_STATUSES_IGNORE);
  for (int other = 0; other < ranks; other++)
    if (other != rank) CHECK(received[other] == 100 * other + rank);
  mix_int(ranks);
  if (rank == 0) printf("PASS %016llx\n", (unsigned long long)state_hash);
  fflush(stdout);
  MPI_Finalize();
  return 0;
}
