// SPDX-License-Identifier: Apache-2.0
// Row: the main thread has ended by pthread_exit, another continues with MPI and is joined with it
#include <pthread.h>
#include <unistd.h>

#include "../check.h"

static struct options o;
static pthread_t first;

static void *work(void *argument) {
  (void)argument;
  int provided;
  CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS);
  CHECK(provided >= MPI_THREAD_SERIALIZED);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  void *result;
  CHECK(pthread_join(first, &result) == 0 && result == &first);
  for (int step = 1; step <= o.steps; step++) {
    int sum = 0;
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    mix_int(sum);
    report_step(step, o.step_ms);
  }
  finish();
  exit(0);
}

int main(int argc, char **argv) {
  o = parse_options(argc, argv, 10, 0);
  first = pthread_self();
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
  pthread_exit(&first);
}
