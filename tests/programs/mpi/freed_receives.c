// SPDX-License-Identifier: Apache-2.0
// Receives that are cancelled and freed, again and again, and persistent ones that are freed while
// active: no checkpoint is needed for them to go.
#include "../check.h"

enum { kTimes = 40000 };

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%ld %ld", &pages, &resident) == 2);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void cancel_and_free(int times) {
  int never = 0;
  for (int i = 0; i < times; i++) {
    MPI_Request request;
    if (i % 2) {
      MPI_Irecv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &request);
    } else {
      MPI_Recv_init(&never, 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &request);
      MPI_Start(&request);
    }
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  cancel_and_free(2000);
  const long before = resident_kib();
  cancel_and_free(kTimes);
  CHECK(resident_kib() - before < 4096);
  for (int step = 1; step <= o.steps; step++) {
    int got = -1;
    const int value = 10 * step + rank;
    cancel_and_free(10);
    report_step(step, o.step_ms);
    MPI_Sendrecv(&value, 1, MPI_INT, (rank + 1) % ranks, 98, &got, 1, MPI_INT,
                 (rank + ranks - 1) % ranks, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == 10 * step + (rank + ranks - 1) % ranks);
    mix_int(got);
  }
  finish();
  return 0;
}
