// SPDX-License-Identifier: Apache-2.0
// Rank 0 makes and frees communicators while a second thread of it waits for a message and a third
// in a collective call, for which the other ranks come late: they wait for a message that it sends
// after that. So a checkpoint that begins meanwhile lets it run on, and all its threads are in MPI.
// With --beyond it frees many: with fewer CPUs than threads the MPIs need milliseconds for each.
#include <pthread.h>

#include "../check.h"

enum { kFrees = 3, kFreesBeyond = 200, kGo = 1, kQuestion = 2 };

static MPI_Comm meeting, served;

static void *meet(void *unused) {
  MPI_Barrier(meeting);
  return unused;
}

static void *serve(void *unused) {
  int question;
  MPI_Recv(&question, 1, MPI_INT, MPI_ANY_SOURCE, kQuestion, served, MPI_STATUS_IGNORE);
  mix_int(question);
  return unused;
}

static void lead(int step, int frees) {
  pthread_t meets, serves;
  CHECK(pthread_create(&meets, NULL, meet, NULL) == 0);
  CHECK(pthread_create(&serves, NULL, serve, NULL) == 0);
  for (int i = 0; i < frees; i++) {
    MPI_Comm copy;
    CHECK(MPI_Comm_dup(MPI_COMM_SELF, &copy) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&copy) == MPI_SUCCESS);
  }
  for (int other = 1; other < ranks; other++) MPI_Send(&step, 1, MPI_INT, other, kGo, meeting);
  CHECK(pthread_join(meets, NULL) == 0);
  MPI_Send(&step, 1, MPI_INT, 0, kQuestion, served);
  CHECK(pthread_join(serves, NULL) == 0);
}

static void follow(void) {
  int step;
  MPI_Recv(&step, 1, MPI_INT, 0, kGo, meeting, MPI_STATUS_IGNORE);
  mix_int(step);
  MPI_Barrier(meeting);
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int frees = kFrees;
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--beyond")) frees = kFreesBeyond;
  MPI_Comm_dup(MPI_COMM_WORLD, &meeting);
  MPI_Comm_dup(MPI_COMM_SELF, &served);
  for (int step = 1; step <= o.steps; step++) {
    if (rank == 0) lead(step, frees);
    else follow();
    report_step(step, o.step_ms);
  }
  MPI_Comm_free(&meeting);
  MPI_Comm_free(&served);
  finish();
  return 0;
}
