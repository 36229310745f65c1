// SPDX-License-Identifier: Apache-2.0
// Memory from MPI_Alloc_mem is the program's: its contents and address are there after a restart.
// More than there can be is an error that the program hears of.
#include "../check.h"

enum { kBlocks = 3 };

// The second may be more than the machine has.
static void ask_for_much(void) {
  const MPI_Aint much[2] = {(MPI_Aint)1 << 32, (MPI_Aint)1 << 36};
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int i = 0; i < 2; i++) {
    char *memory = NULL;
    const int error = MPI_Alloc_mem(much[i], MPI_INFO_NULL, &memory);
    CHECK(error == MPI_SUCCESS || error == MPI_ERR_NO_MEM);
    if (error) continue;
    memory[0] = memory[much[i] - 1] = 1;
    MPI_Free_mem(memory);
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const MPI_Aint bytes[kBlocks] = {16, 5000, 3 << 20};
  int *block[kBlocks];
  for (int b = 0; b < kBlocks; b++) {
    CHECK(MPI_Alloc_mem(bytes[b], MPI_INFO_NULL, &block[b]) == MPI_SUCCESS);
    for (int i = 0; i < bytes[b] / 4; i++) block[b][i] = i * (b + 1) + rank;
  }
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--beyond")) ask_for_much();  // MPICH 4.0 hands out less
  for (int step = 1; step <= o.steps; step++) {
    void *more = NULL;
    MPI_Alloc_mem(1000 * step, MPI_INFO_NULL, &more);
    memset(more, step, 1000 * (size_t)step);
    report_step(step, o.step_ms);
    for (int b = 0; b < kBlocks; b++)
      for (int i = 0; i < bytes[b] / 4; i++) CHECK(block[b][i] == i * (b + 1) + rank);
    CHECK(((char *)more)[1000 * step - 1] == (char)step);
    int sum = 0;
    MPI_Allreduce(block[1], &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(block[2], (int)bytes[2] / 4, MPI_INT, step % ranks, MPI_COMM_WORLD);
    for (int i = 0; i < bytes[2] / 4; i++) block[2][i] = i * 3 + rank;
    mix_int(sum);
    MPI_Free_mem(more);
  }
  for (int b = 0; b < kBlocks; b++) MPI_Free_mem(block[b]);
  finish();
  return 0;
}
