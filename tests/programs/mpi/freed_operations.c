// SPDX-License-Identifier: Apache-2.0
// Operations and datatypes of the program's own that are freed while a non-blocking reduction needs
// them, many times over: the function is called, with the datatype, and nothing runs out. In the
// last step, in which a test may keep the program, none is under way.
#include "../check.h"

enum { kTimes = 60 };

static int calls;

// Adds pairs of ints, of which only the second ones are in the datatype's data.
static void add(void *in, void *inout, int *length, MPI_Datatype *type) {
  MPI_Aint lower, extent;
  int size = 0;
  CHECK(*type != MPI_DATATYPE_NULL);
  MPI_Type_size(*type, &size);
  MPI_Type_get_extent(*type, &lower, &extent);
  CHECK(size == (int)sizeof(int) && extent == 2 * (MPI_Aint)sizeof(int));
  for (int i = 0; i < *length; i++) ((int *)inout)[2 * i] += ((int *)in)[2 * i];
  calls++;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  MPI_Op kept, minus_one;
  int commutes = 0;
  MPI_Op_create(add, 1, &kept);
  MPI_Op_create(add, -1, &minus_one);  // any number but 0 says that it commutes
  MPI_Op_commutative(minus_one, &commutes);
  CHECK(commutes);
  for (int step = 1; step <= o.steps; step++) {
    int total[4] = {0, -7, 0, -7};
    if (step == o.steps) report_step(step, o.step_ms);
    for (int i = 0; i < kTimes; i++) {
      const int mine[4] = {step + rank, 0, i, 0};
      MPI_Op op;
      MPI_Datatype type;
      MPI_Request request;
      MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
      MPI_Type_commit(&type);
      CHECK(MPI_Op_create(add, 1, &op) == MPI_SUCCESS);
      MPI_Iallreduce(mine, total, 2, type, op, MPI_COMM_WORLD, &request);
      MPI_Op_free(&op);
      MPI_Type_free(&type);
      if (i == 0 && step != o.steps) report_step(step, o.step_ms);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(total[2] == i * ranks && total[1] == -7);
    }
    mix_int(total[0]);
  }
  int all_calls = 0;
  MPI_Allreduce(&calls, &all_calls, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(all_calls > 0);
  MPI_Datatype type;
  int last[2] = {1, 0}, sum[2] = {0, 0};
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
  MPI_Type_commit(&type);
  MPI_Allreduce(last, sum, 1, type, minus_one, MPI_COMM_WORLD);
  CHECK(sum[0] == ranks);
  MPI_Type_free(&type);
  MPI_Op_free(&kept);
  MPI_Op_free(&minus_one);
  finish();
  return 0;
}
