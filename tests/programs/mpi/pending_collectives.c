// SPDX-License-Identifier: Apache-2.0
// Non-blocking collective calls begun before the checkpoint and waited for after it; one of them
// with an operation of the program's own that is freed while the call is pending, and a barrier
// that rank 0 enters only after the pause. Not so in the last step, in which a test may keep the
// program: a rank that owes a call there, or whose function might be called, would never stop.
#include "../check.h"

static void larger_half(void *in, void *inout, int *count, MPI_Datatype *type) {
  CHECK(*type == MPI_INT);
  for (int i = 0; i < *count; i++) {
    const int a = ((int *)in)[i], b = ((int *)inout)[i];
    ((int *)inout)[i] = (a > b ? a : b) / 2 * 2;
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  for (int step = 1; step <= o.steps; step++) {
    enum { kAllreduce, kBcast, kReduce, kScan, kAllgather, kAlltoall, kUser, kBarrier, kCalls };
    MPI_Request request[kCalls];
    MPI_Op own;
    const int x = 10 * step + rank;
    int sum = 0, told = rank == ranks - 1 ? step : 0, top = 0, partial = 0, best = 0;
    int gathered[64], sent[64], exchanged[64];
    CHECK(ranks <= 64);
    for (int i = 0; i < ranks; i++) sent[i] = 100 * step + 10 * rank + i;
    MPI_Iallreduce(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request[kAllreduce]);
    MPI_Ibcast(&told, 1, MPI_INT, ranks - 1, copy, &request[kBcast]);
    MPI_Ireduce(&x, &top, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD, &request[kReduce]);
    MPI_Iscan(&x, &partial, 1, MPI_INT, MPI_SUM, copy, &request[kScan]);
    MPI_Iallgather(&x, 1, MPI_INT, gathered, 1, MPI_INT, copy, &request[kAllgather]);
    MPI_Ialltoall(sent, 1, MPI_INT, exchanged, 1, MPI_INT, copy, &request[kAlltoall]);
    if (step == o.steps) report_step(step, o.step_ms);
    MPI_Op_create(larger_half, 1, &own);
    MPI_Iallreduce(&x, &best, 1, MPI_INT, own, copy, &request[kUser]);
    MPI_Op_free(&own);
    const int is_late = rank == 0 || step == o.steps;
    if (!is_late) MPI_Ibarrier(copy, &request[kBarrier]);
    if (step != o.steps) report_step(step, o.step_ms);
    if (is_late) MPI_Ibarrier(copy, &request[kBarrier]);
    MPI_Waitall(kCalls, request, MPI_STATUSES_IGNORE);
    CHECK(sum == ranks * 10 * step + ranks * (ranks - 1) / 2 && told == step);
    CHECK(rank != 0 || top == 10 * step + ranks - 1);
    CHECK(partial == (rank + 1) * 10 * step + rank * (rank + 1) / 2);
    CHECK(ranks == 1 || best == (10 * step + ranks - 1) / 2 * 2);
    for (int i = 0; i < ranks; i++)
      CHECK(gathered[i] == 10 * step + i && exchanged[i] == 100 * step + 10 * i + rank);
    mix_int(sum);
    mix_int(partial);
    mix_int(best);
  }
  MPI_Comm_free(&copy);
  finish();
  return 0;
}
