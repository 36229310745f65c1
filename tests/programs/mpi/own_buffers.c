// SPDX-License-Identifier: Apache-2.0
// MPI_Bsend through a buffer of a communicator's own, and flushing (MPI-4.1). Where the MPI has
// neither, through the process's buffer.
#define _GNU_SOURCE
#include "../check.h"

#include <dlfcn.h>

enum { kMessages = 5, kNumbers = 3000 };  // of 12 KB: most of them wait for their receives

static char buffer[kMessages * (kNumbers * sizeof(int) + 1024)];

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int (*attach)(MPI_Comm, void *, int) = dlsym(RTLD_DEFAULT, "MPI_Comm_attach_buffer");
  int (*detach)(MPI_Comm, void *, int *) = dlsym(RTLD_DEFAULT, "MPI_Comm_detach_buffer");
  int (*flush)(MPI_Comm) = dlsym(RTLD_DEFAULT, "MPI_Comm_flush_buffer");
  int (*flush_all)(void) = dlsym(RTLD_DEFAULT, "MPI_Buffer_flush");
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  int out[kNumbers], in[kNumbers], size = 0;
  void *was = NULL;
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (attach) CHECK(attach(comm, buffer, sizeof buffer) == MPI_SUCCESS);
  else MPI_Buffer_attach(buffer, sizeof buffer);
  if (attach) CHECK(attach(comm, buffer, 1) != MPI_SUCCESS);  // one is enough
  for (int step = 1; step <= o.steps; step++) {
    for (int i = 0; i < kMessages; i++) {
      for (int k = 0; k < kNumbers; k++) out[k] = step * i + k + rank;
      CHECK(MPI_Bsend(out, kNumbers, MPI_INT, next, i, comm) == MPI_SUCCESS);
    }
    report_step(step, o.step_ms);
    for (int i = kMessages - 1; i >= 0; i--) {
      MPI_Recv(in, kNumbers, MPI_INT, previous, i, comm, MPI_STATUS_IGNORE);
      for (int k = 0; k < kNumbers; k++) CHECK(in[k] == step * i + k + previous);
      mix_int(in[step]);
    }
    if (flush_all) CHECK(flush_all() == MPI_SUCCESS);
    if (flush) CHECK(flush(comm) == MPI_SUCCESS);
    else MPI_Buffer_detach(&was, &size), MPI_Buffer_attach(was, size);
  }
  if (detach) CHECK(detach(comm, &was, &size) == MPI_SUCCESS);
  else MPI_Buffer_detach(&was, &size);
  CHECK(was == buffer && size == (int)sizeof buffer);
  MPI_Comm_free(&comm);
  finish();
  return 0;
}
