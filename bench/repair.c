// SPDX-License-Identifier: Apache-2.0
// What a death costs with ULFM, and with lib/ftcoll: the same program, compiled with -DULFM for an
// MPI that has it, else with ftcoll_mpi.h. MPI_Allreduce of a double without faults, then the last
// process kills itself, and the others continue: with ULFM by revoke and shrink, with ftcoll by the
// call itself. A line "fault-free MICROSECONDS repaired MILLISECONDS living N" from process 0; the
// time of the repair is from the barrier before the death to the first result of those who live.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#ifdef ULFM
#include <mpi-ext.h>
#else
#include <ftcoll_mpi.h>
#endif

enum { WARM_UP = 20, CALLS = 200 };

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int sum(MPI_Comm comm, double *all) {
  double one = 1;
  return MPI_Allreduce(&one, all, 1, MPI_DOUBLE, MPI_SUM, comm);
}

static void fail(const char *what) {
  fprintf(stderr, "repair: %s\n", what);
  _Exit(1);
}

// The communicator that is left, and the first sum over those who live.
static double repair(MPI_Comm *comm) {
  double all = 0;
#ifdef ULFM
  if (sum(*comm, &all) == MPI_SUCCESS) fail("a call with a dead process has succeeded");
  MPIX_Comm_revoke(*comm);
  MPI_Comm living;
  if (MPIX_Comm_shrink(*comm, &living) != MPI_SUCCESS) fail("MPIX_Comm_shrink has failed");
  MPI_Comm_set_errhandler(living, MPI_ERRORS_RETURN);
  *comm = living;
#endif
  if (sum(*comm, &all) != MPI_SUCCESS) fail("no result after the death");
  return all;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
#ifndef ULFM
  ftc_mark(comm);
#endif
  double all = 0;
  for (int call = 0; call < WARM_UP; call++) sum(comm, &all);
  const double begin_s = now_s();
  for (int call = 0; call < CALLS; call++) sum(comm, &all);
  const double call_us = 1e6 * (now_s() - begin_s) / CALLS;
  MPI_Barrier(comm);
  const double death_s = now_s();
  if (rank == size - 1) raise(SIGKILL);
  const double living = repair(&comm);
  const double repaired_ms = 1e3 * (now_s() - death_s);
  if (rank == 0) {
    printf("fault-free %.1f repaired %.2f living %.0f\n", call_us, repaired_ms, living);
    fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
