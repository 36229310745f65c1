// SPDX-License-Identifier: Apache-2.0
// What ranks do when MPI is over: rank 0 ends at once, the others have work that takes them longer.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  MPI_Finalize();
  if (rank != 0) {
    pause_ms(1000);
    printf("rank %d has done its last work\n", rank);
  }
  return 0;
}
