// SPDX-License-Identifier: Apache-2.0
// An intercommunicator made before the checkpoint: messages in flight across it, collectives with
// MPI_ROOT, its groups, and merging it after the restart.
#include "../check.h"

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  CHECK(ranks >= 2);
  const int lower = rank < ranks / 2, others = lower ? ranks - ranks / 2 : ranks / 2;
  MPI_Comm half, inter, merged;
  MPI_Comm_split(MPI_COMM_WORLD, lower, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, lower ? ranks / 2 : 0, 11, &inter);
  int own = -1;
  MPI_Comm_rank(half, &own);
  for (int step = 1; step <= o.steps; step++) {
    int told = lower && own == 0 ? step : 0, size = -1, flag = 0, total = 0, got = -1, sum = 0;
    const int value = 10 * step + rank;
    MPI_Status status;
    if (own == 0) MPI_Send(&value, 1, MPI_INT, others - 1, 3, inter);
    report_step(step, o.step_ms);
    MPI_Comm_test_inter(inter, &flag);
    MPI_Comm_remote_size(inter, &size);
    CHECK(flag && size == others);
    MPI_Comm_size(half, &size);
    if (own == size - 1) {
      MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, inter, &status);
      CHECK(status.MPI_SOURCE == 0 && got == 10 * step + (lower ? ranks / 2 : 0));
    }
    MPI_Bcast(&told, 1, MPI_INT, lower ? (own == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, inter);
    CHECK(told == step || (lower && own != 0));
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
    mix_int(sum);
    MPI_Intercomm_merge(inter, !lower, &merged);
    MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, merged);
    CHECK(total == ranks * 10 * step + ranks * (ranks - 1) / 2);
    MPI_Comm_free(&merged);
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
  finish();
  return 0;
}
