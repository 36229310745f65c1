// SPDX-License-Identifier: Apache-2.0
// A collective call on a communicator that this rank has freed is refused, while other members have
// not freed it yet and when all have. The error is MPI_COMM_WORLD's.
// Option: --beyond 1 (does it: Open MPI looks into memory that it has freed).
#include "../check.h"

static int refused(int code) {
  int class = -1;
  MPI_Error_class(code, &class);
  return class == MPI_ERR_COMM;
}

static void check_refused(MPI_Comm comm) {
  int one = 1, sum = 0;
  CHECK(refused(MPI_Barrier(comm)));
  CHECK(refused(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm)));
  CHECK(refused(MPI_Bcast(&one, 1, MPI_INT, 0, comm)));
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  const int beyond = has_option(argc, argv, "--beyond");
  for (int step = 1; step <= o.steps; step++) {
    MPI_Comm comm, kept;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    kept = comm;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank) MPI_Comm_free(&comm);
    if (beyond && rank) check_refused(kept);
    say_step(step);
    pause_ms(o.step_ms);
    if (beyond && rank) check_refused(kept);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank) MPI_Comm_free(&comm);
    MPI_Barrier(MPI_COMM_WORLD);
    hold_step(step);
    if (beyond) check_refused(kept);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    mix_int(step);
  }
  finish();
  return 0;
}
