// SPDX-License-Identifier: Apache-2.0
// Calls that have nowhere to put their result are MPI_ERR_ARG, and constructors that fail leave
// MPI_COMM_NULL. In MPICH's ABI communicators and windows without an error handler of their own
// follow MPI_COMM_WORLD's, also when that is set later. Beyond what both real MPIs do.
#include "../check.h"

static int class_of(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class;
}

#define REFUSED(call) CHECK(class_of(call) == MPI_ERR_ARG)

static void nowhere(MPI_Comm comm) {
  MPI_Group group;
  MPI_Datatype type;
  MPI_Aint lower;
  int zero = 0;
  MPI_Comm_group(comm, &group);
  MPI_Type_contiguous(3, MPI_INT, &type);
  REFUSED(MPI_Comm_size(comm, NULL));
  REFUSED(MPI_Comm_split(comm, 0, 0, NULL));
  REFUSED(MPI_Comm_create(comm, group, NULL));
  REFUSED(MPI_Comm_group(comm, NULL));
  REFUSED(MPI_Group_size(group, NULL));
  REFUSED(MPI_Group_translate_ranks(group, 1, &zero, group, NULL));
  REFUSED(MPI_Group_union(group, group, NULL));
  REFUSED(MPI_Type_contiguous(3, MPI_INT, NULL));
  REFUSED(MPI_Type_get_extent(type, &lower, NULL));
  MPI_Type_free(&type);
  MPI_Group_free(&group);
}

static void too_large(MPI_Comm comm) {
  const int dims[2] = {ranks, ranks}, periods[2] = {0, 0};
  MPI_Comm cart = comm;
  CHECK(MPI_Cart_create(comm, 2, dims, periods, 0, &cart) != MPI_SUCCESS);
  CHECK(cart == MPI_COMM_NULL);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
#ifdef MPICH_VERSION
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#else
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
#endif
  for (int step = 1; step <= o.steps; step++) {
    if (beyond) {
      nowhere(comm);
      too_large(comm);
    }
    int sum = 0;
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, comm);
    mix_int(sum);
    report_step(step, o.step_ms);
  }
  MPI_Comm_free(&comm);
  finish();
  return 0;
}
