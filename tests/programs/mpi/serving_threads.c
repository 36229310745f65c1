// SPDX-License-Identifier: Apache-2.0
// Beside its computation each rank has a thread that waits for the next rank's orders, as servers
// do; they come in the last three steps. The ranks take turns in being late for a collective call,
// for longer than it takes to tell what one waits for: whoever is late needs the next rank, for
// which its thread waits, and that one needs the rank after it, and so on round to the first.
#include <pthread.h>

#include "../check.h"

enum { kOrder = 1, kLateMs = 100 };

static MPI_Comm served;
static long long sum;

static void *serve(void *unused) {
  for (int order = 1; order != 0; sum += order)
    MPI_Recv(&order, 1, MPI_INT, (rank + 1) % ranks, kOrder, served, MPI_STATUS_IGNORE);
  return unused;
}

static void give_order(int order) {
  MPI_Send(&order, 1, MPI_INT, (rank + ranks - 1) % ranks, kOrder, served);
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  pthread_t server;
  MPI_Comm_dup(MPI_COMM_WORLD, &served);
  CHECK(pthread_create(&server, NULL, serve, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    int most = 0;
    const int mine = 100 * step + rank;
    for (int turn = 0; turn < ranks; turn++) {
      if (turn == rank) compute_ms(kLateMs);
      MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      CHECK(most == 100 * step + ranks - 1);
    }
    if (step + 3 > o.steps) give_order(mine);
    report_step(step, o.step_ms);
    mix_int(most);
  }
  give_order(0);
  pthread_join(server, NULL);
  mix_int(sum);
  MPI_Comm_free(&served);
  finish();
  return 0;
}
