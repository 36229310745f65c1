// SPDX-License-Identifier: Apache-2.0
// Between a program's receive and the MPI that serves it, as a library that the MPI's wrapper links
// first: a thread loses its processor just before it posts its receive, until another one has taken
// the message or the test says so. Given to the compiler: DIRECTORY, where a file "stalled" appears
// then, and "goes_on" is looked for.
#include <fcntl.h>
#include <mpi.h>
#include <time.h>
#include <unistd.h>

enum { kEarly = 7, kLongestMs = 60000 };  // tests/programs/mpi/receives_in_threads.c

static int has_stalled, is_taken;

int MPI_Irecv(void *buffer, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request *request) {
  const struct timespec pause = {0, 1000000};
  if (tag == kEarly && !__atomic_exchange_n(&has_stalled, 1, __ATOMIC_SEQ_CST)) {
    close(open(DIRECTORY "/stalled", O_CREAT | O_WRONLY, 0644));
    for (int ms = 0; ms < kLongestMs && access(DIRECTORY "/goes_on", F_OK) != 0; ms++) {
      if (__atomic_load_n(&is_taken, __ATOMIC_SEQ_CST)) break;
      nanosleep(&pause, NULL);
    }
  }
  return PMPI_Irecv(buffer, count, datatype, source, tag, comm, request);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
  MPI_Status found;
  const int outcome = PMPI_Improbe(source, tag, comm, flag, message, &found);
  if (*flag && found.MPI_TAG == kEarly) __atomic_store_n(&is_taken, 1, __ATOMIC_SEQ_CST);
  if (status != MPI_STATUS_IGNORE) *status = found;
  return outcome;
}
