// SPDX-License-Identifier: Apache-2.0
// Reductions with an operation of the program's own in programs of several threads. In some steps
// the main thread waits for one whose function needs a mutex that another thread holds while it
// computes; in some they have changed places; in others another thread always has one under way,
// while the main one waits for that thread, outside MPI.
#include <pthread.h>

#include "../check.h"

enum { kRounds = 6, kLength = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile int over;
static MPI_Comm copy;
static MPI_Op op;
static int pause_of_step;

static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
  CHECK(*type == MPI_INT);
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
  pthread_mutex_unlock(&mutex);
}

static void *compute(void *unused) {
  while (!over) {
    pthread_mutex_lock(&mutex);
    pause_ms(pause_of_step / kRounds);
    pthread_mutex_unlock(&mutex);
    pause_ms(1);
  }
  return unused;
}

static void *reduce_now_and_then(void *of_step) {
  const int step = *(const int *)of_step;
  for (int i = 0; i < kRounds; i++) {
    MPI_Request request;
    const int mine = step + rank + i;
    int sum = 0;
    if (i % ranks == rank) pause_ms(pause_of_step / kRounds);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == ranks * (step + i) + ranks * (ranks - 1) / 2);
    mix_int(sum);
  }
  over = 1;
  return NULL;
}

static void *reduce_all_the_time(void *unused) {
  MPI_Request request[2];
  int mine[2], sums[2];
  for (int i = 0; i <= kLength; i++) {
    if (i < kLength) {
      mine[i % 2] = i + rank;
      MPI_Iallreduce(&mine[i % 2], &sums[i % 2], 1, MPI_INT, op, copy, &request[i % 2]);
    }
    pause_ms(1 + pause_of_step / kLength);
    if (i == 0) continue;
    const int before = (i - 1) % 2;
    MPI_Wait(&request[before], MPI_STATUS_IGNORE);
    CHECK(sums[before] == ranks * (i - 1) + ranks * (ranks - 1) / 2);
    mix_int(sums[before]);
  }
  return unused;
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  pause_of_step = o.step_ms;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Op_create(add, 1, &op);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, 0);
    pthread_t thread;
    const int way = step / 3 % 3;
    void *(*const other)(void *) = way == 0   ? compute
                                   : way == 1 ? reduce_now_and_then
                                              : reduce_all_the_time;
    over = 0;
    CHECK(pthread_create(&thread, NULL, other, &step) == 0);
    if (way == 0) reduce_now_and_then(&step);
    if (way == 1) compute(NULL);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  MPI_Op_free(&op);
  MPI_Comm_free(&copy);
  finish();
}
