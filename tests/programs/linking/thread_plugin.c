// SPDX-License-Identifier: Apache-2.0
// The library of loaded_by_thread: all of MPI from its first call to its last one, and a receive
// and a derived type that are alive over every step. --single: MPI_Init, which promises no threads.
#include "../check.h"

void plugin_main(int argc, char **argv) {
  int provided = MPI_THREAD_SERIALIZED;
  if (argc > 1 && !strcmp(argv[1], "--single")) start(&argc, &argv);
  else MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  CHECK(provided >= MPI_THREAD_SERIALIZED);
  know_world();
  const struct options o = parse_options(argc, argv, 10, 0);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  for (int step = 1; step <= o.steps; step++) {
    int sent[2] = {step, rank}, got[2] = {0, 0}, sum = 0;
    MPI_Request request;
    MPI_Irecv(got, 1, pair, from, 3, MPI_COMM_WORLD, &request);
    MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    MPI_Send(sent, 1, pair, to, 3, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got[0] == step && got[1] == from && sum == step * ranks);
    mix(got, sizeof got);
  }
  MPI_Type_free(&pair);
  finish();
}
