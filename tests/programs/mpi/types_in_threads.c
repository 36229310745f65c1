// SPDX-License-Identifier: Apache-2.0
// Four threads make datatypes at the same time, look at what they are made of, and free them.
#include <pthread.h>

#include "../check.h"

enum { kThreads = 4, kRounds = 20000, kBlocks = 5 };

static int steps;

static void make_one(int seed) {
  int lengths[kBlocks], places[kBlocks], ints[2 * kBlocks + 1], count[3], combiner;
  MPI_Aint addresses[1];
  MPI_Datatype type, of[1];
  for (int i = 0; i < kBlocks; i++) lengths[i] = seed + i, places[i] = 1000 * seed + 10 * i;
  MPI_Type_indexed(kBlocks, lengths, places, MPI_INT, &type);
  MPI_Type_get_envelope(type, &count[0], &count[1], &count[2], &combiner);
  CHECK(combiner == MPI_COMBINER_INDEXED && count[0] == 2 * kBlocks + 1);
  MPI_Type_get_contents(type, count[0], 0, 1, ints, addresses, of);
  for (int i = 0; i < kBlocks; i++)
    CHECK(ints[1 + i] == lengths[i] && ints[1 + kBlocks + i] == places[i]);
  MPI_Type_free(&type);
}

static void *make_many(void *argument) {
  for (int i = 0; i < kRounds / steps; i++) make_one((int)(intptr_t)argument + i % 7);
  return NULL;
}

int main(int argc, char **argv) {
  int level;
  CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
  CHECK(level == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const struct options o = parse_options(argc, argv, 8, 0);
  steps = o.steps;
  for (int step = 1; step <= o.steps; step++) {
    pthread_t threads[kThreads];
    for (int i = 0; i < kThreads; i++)
      CHECK(pthread_create(&threads[i], NULL, make_many, (void *)(intptr_t)(10 * i)) == 0);
    for (int i = 0; i < kThreads; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  finish();
  return 0;
}
