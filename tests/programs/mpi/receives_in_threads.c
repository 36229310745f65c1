// SPDX-License-Identifier: Apache-2.0
// Two threads of a rank receive from rank 0: one what was sent long ago, the other what comes late.
// Rank 0 is in a barrier meanwhile, for which the second one is awaited.
// Option: --dir DIRECTORY; the late message waits while a file "late" is in it.
#include <pthread.h>

#include "../check.h"

enum { kEarly = 7, kLate = 8 };  // tests/harness/receives_late.c

static char file[4096];

static void *send_late(void *value) {
  while (access(file, F_OK) == 0) pause_ms(1);
  for (int to = 1; to < ranks; to++) MPI_Send(value, 1, MPI_INT, to, kLate, MPI_COMM_WORLD);
  return NULL;
}

static void *receive_early(void *got) {
  MPI_Recv(got, 1, MPI_INT, 0, kEarly, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return NULL;
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  snprintf(file, sizeof file, "%s/late", directory_option(argc, argv));
  for (int step = 1; step <= o.steps; step++) {
    int sent = 10 * step, early = sent, late = sent;
    pthread_t thread;
    if (rank == 0) {
      CHECK(pthread_create(&thread, NULL, send_late, &sent) == 0);
      for (int to = 1; to < ranks; to++) MPI_Send(&sent, 1, MPI_INT, to, kEarly, MPI_COMM_WORLD);
    } else {
      early = late = -1;
      CHECK(pthread_create(&thread, NULL, receive_early, &early) == 0);
      MPI_Recv(&late, 1, MPI_INT, 0, kLate, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    CHECK(early == 10 * step && late == 10 * step);
    report_step(step, o.step_ms);
    mix_int(early + late);
  }
  finish();
  return 0;
}
