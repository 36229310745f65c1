// SPDX-License-Identifier: Apache-2.0
// Waiting for a generalized request, which another thread completes once the sender of a large
// message has finished, while the receive of that message is posted: it must get on meanwhile, also
// where it is not waited for. Option: --dir DIRECTORY, where the ranks tell each other outside MPI.
#include <pthread.h>

#include "../check.h"

enum { kCount = 1 << 19 };

static char told[4096];
static MPI_Request generalized;

static int query(void *extra, MPI_Status *status) {
  (void)extra;
  MPI_Status_set_elements(status, MPI_INT, 0);
  MPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return MPI_SUCCESS;
}
static int release(void *extra) {
  (void)extra;
  return MPI_SUCCESS;
}
static int cancel(void *extra, int complete) {
  (void)extra, (void)complete;
  return MPI_SUCCESS;
}

static void *complete_when_sent(void *unused) {
  const double end = now_seconds() + 30;
  while (access(told, F_OK) != 0 && now_seconds() < end) pause_ms(1);
  CHECK(now_seconds() < end);
  MPI_Grequest_complete(generalized);
  return unused;
}

static void wait_for_both(int way, MPI_Request both[2]) {
  MPI_Status statuses[2];
  int index = -1, done = 0, indices[1];
  if (way == 0) MPI_Waitall(2, both, statuses);
  if (way == 1) MPI_Wait(&both[0], MPI_STATUS_IGNORE);
  if (way == 2) MPI_Waitany(1, both, &index, MPI_STATUS_IGNORE);
  while (way == 3 && done == 0) MPI_Testsome(1, both, &done, indices, MPI_STATUSES_IGNORE);
  MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  snprintf(told, sizeof told, "%s/sent.%d", directory_option(argc, argv), ranks);
  if (rank == 0) unlink(told);
  int *const data = malloc(kCount * sizeof(int));
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      pthread_t thread;
      MPI_Request both[2];
      MPI_Grequest_start(query, release, cancel, NULL, &generalized);
      both[0] = generalized;
      MPI_Irecv(data, kCount, MPI_INT, 1, 1, MPI_COMM_WORLD, &both[1]);
      CHECK(pthread_create(&thread, NULL, complete_when_sent, NULL) == 0);
      wait_for_both(step % 4, both);
      pthread_join(thread, NULL);
      CHECK(data[0] == step && data[kCount - 1] == step);
      unlink(told);
    } else if (rank == 1) {
      for (int i = 0; i < kCount; i++) data[i] = step;
      MPI_Send(data, kCount, MPI_INT, 0, 1, MPI_COMM_WORLD);
      FILE *const file = fopen(told, "w");
      CHECK(file);
      fclose(file);
    }
    report_step(step, o.step_ms);
    mix_int(step);
  }
  free(data);
  finish();
  return 0;
}
