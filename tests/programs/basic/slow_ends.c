// SPDX-License-Identifier: Apache-2.0
// Stays outside MPI for a while: rank 1 sleeps --init-ms before MPI_Init, and before MPI_Finalize,
// where the others wait for it, --finalize-ms. Prints what it is about to do.
#include "../check.h"

static int option(int argc, char **argv, const char *name) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], name)) return atoi(argv[i + 1]);
  return 0;
}

// Before MPI_Init only the process manager's environment tells who is who.
static int rank_by_environment(void) {
  const char *text = getenv("OMPI_COMM_WORLD_RANK");
  if (!text) text = getenv("PMI_RANK");
  return text ? atoi(text) : 0;
}

int main(int argc, char **argv) {
  printf("before init\n");
  fflush(stdout);
  if (rank_by_environment() == 1) pause_ms(option(argc, argv, "--init-ms"));
  start(&argc, &argv);
  mix_int(rank);
  uint64_t sum = 0, mine = state_hash;
  MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  mix(&sum, sizeof sum);
  if (rank == 0) printf("PASS %016llx\n", (unsigned long long)state_hash);
  printf("before finalize\n");
  fflush(stdout);
  if (rank == 1) pause_ms(option(argc, argv, "--finalize-ms"));
  MPI_Finalize();
  return 0;
}
