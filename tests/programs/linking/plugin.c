// SPDX-License-Identifier: Apache-2.0
// The plug-in of plugin_main and resources/threads_tls_dlopen: has thread-local data of its own and
// a communicator it made itself.
#include <mpi.h>

static __thread int calls, counted;
static MPI_Comm own = MPI_COMM_NULL;

int plugin_count(void) { return ++counted; }

int plugin_step(int step) {
  int sum = 0, value = step + ++calls;
  if (own == MPI_COMM_NULL) MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, own);
  return sum;
}
