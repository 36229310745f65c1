// SPDX-License-Identifier: Apache-2.0
// Reductions with an operation of the program's own are under way while the program computes. Its
// function may need what the computation holds (here: is not to see `computing`), so it is called
// inside MPI calls only, not in MPI_Wtime, also when a checkpoint comes meanwhile. None is under
// way in the last step, in which a test may keep the program: such a rank would never stop there.
#include "../check.h"
#include "../persistent.h"

static volatile int computing;
static int calls;

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
  CHECK(!computing && *type == MPI_INT);
  for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
  calls++;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  static int mine[4096], sum[4096], total;
  MPI_Op op;
  MPI_Request request[2];
  MPI_Op_create(add, 1, &op);
  PERSISTENT(Allreduce_init)(&mine[1], &total, 1, MPI_INT, op, MPI_COMM_WORLD, MPI_INFO_NULL,
                             &request[1]);
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < 4096; i++) mine[i] = step + rank + i;
    if (step == o.steps) report_step(step, o.step_ms);
    MPI_Iallreduce(mine, sum, 4096, MPI_INT, op, MPI_COMM_WORLD, &request[0]);
    MPI_Start(&request[1]);
    if (step % 2) MPI_Wait(&request[step / 2 % 2], MPI_STATUS_IGNORE);  // only the other is left
    computing = 1;
    if (step != o.steps) report_step(step, o.step_ms);
    CHECK(MPI_Wtime() >= 0);
    computing = 0;
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4096; i++) CHECK(sum[i] == ranks * (step + i) + ranks * (ranks - 1) / 2);
    CHECK(total == sum[1]);
    mix_int(total);
  }
  int all_calls = 0;
  MPI_Allreduce(&calls, &all_calls, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all_calls > 0 || ranks == 1);
  MPI_Request_free(&request[1]);
  MPI_Op_free(&op);
  finish();
  return 0;
}
