// SPDX-License-Identifier: Apache-2.0
// MPI_Comm_create_group and MPI_Intercomm_create while one member computes and the others are in
// the call, leaders and others; on a group that has made no such call before. With --beyond each
// leader has a receive of any message pending on the peer communicator meanwhile.
#include "../check.h"

static int beyond;

// Nobody else pauses, or waits while the program is held.
static void late_is(int late, int step, int late_ms) {
  if (rank == late) report_step(step, late_ms);
  else say_step(step);
}

static void total(MPI_Comm comm, int value) {
  int sum = -1;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  mix_int(sum);
}

static void group_of_all(int step, int late_ms) {
  MPI_Group all, turned;
  MPI_Comm made;
  int order[16];
  for (int i = 0; i < ranks; i++) order[i] = (i + step) % ranks;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, ranks, order, &turned);
  late_is(0, step, late_ms);
  MPI_Comm_create_group(MPI_COMM_WORLD, turned, step, &made);
  total(made, step * (rank + 1));
  MPI_Comm_free(&made);
  MPI_Group_free(&turned);
  MPI_Group_free(&all);
}

// The low half's leader is its last rank, the high half's its first.
static void intercommunicator(int step, int late, int late_ms) {
  const int cut = ranks / 2, is_low = rank < cut;
  const int leads = rank == cut - 1 || rank == cut;
  int word = 0;
  MPI_Comm half, made;
  MPI_Request any = MPI_REQUEST_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_low, rank, &half);
  if (beyond && leads)
    MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any);
  late_is(late, step, late_ms);
  MPI_Intercomm_create(half, is_low ? cut - 1 : 0, MPI_COMM_WORLD, is_low ? cut : cut - 1, step,
                       &made);
  total(made, step * (rank + 1));
  if (beyond && leads) {
    MPI_Send(&step, 1, MPI_INT, is_low ? cut : cut - 1, 1, MPI_COMM_WORLD);
    MPI_Wait(&any, MPI_STATUS_IGNORE);
    CHECK(word == step);
  }
  MPI_Comm_free(&made);
  MPI_Comm_free(&half);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  CHECK(ranks >= 2 && ranks <= 16);
  beyond = has_option(argc, argv, "--beyond");
  for (int step = 1; step <= o.steps; step++) {
    if (step % 4 >= 2) group_of_all(step, 4 * o.step_ms);
    else intercommunicator(step, step % 8 ? ranks / 2 - 1 : ranks - 1, 4 * o.step_ms);
  }
  finish();
  return 0;
}
