// SPDX-License-Identifier: Apache-2.0
// Two threads of a rank inside MPI, one of which waits in a call for what the other one does:
// fences, locks of windows, files opened beside windows, MPI_Waitall beside a generalized request.
// Option: --dir DIRECTORY.
#include <pthread.h>

#include "../check.h"

static MPI_Comm comms[2];
static MPI_Win window;
static int memory[4];
static char name[4096];

static void *in_a_fence(void *unused) {
  MPI_Win_fence(0, window);
  return unused;
}
static void *in_a_lock(void *unused) {
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
  MPI_Win_unlock(0, window);
  return unused;
}
static void *make_windows(void *unused) {
  for (int i = 0; i < 5; i++) {
    MPI_Win made;
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comms[0], &made);
    MPI_Win_free(&made);
  }
  return unused;
}

static pthread_t begin(void *(*body)(void *)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
  return thread;
}

static void fence_and_send(int step) {
  int got = 0;
  if (rank == 0) {
    const pthread_t thread = begin(in_a_fence);
    pause_ms(20);
    for (int to = 1; to < ranks; to++) MPI_Send(&step, 1, MPI_INT, to, 1, comms[1]);
    pthread_join(thread, NULL);
  } else {
    MPI_Recv(&got, 1, MPI_INT, 0, 1, comms[1], MPI_STATUS_IGNORE);
    CHECK(got == step);
    MPI_Win_fence(0, window);
  }
}

// Rank 1 has the lock, and gives it back when it has heard of rank 0, one of whose threads waits
// for it.
static void lock_and_send(int step) {
  int got = 0;
  if (rank == 0) {
    MPI_Recv(&got, 1, MPI_INT, 1, 2, comms[1], MPI_STATUS_IGNORE);
    const pthread_t thread = begin(in_a_lock);
    pause_ms(20);
    MPI_Send(&step, 1, MPI_INT, 1, 3, comms[1]);
    pthread_join(thread, NULL);
  } else if (rank == 1) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Send(&step, 1, MPI_INT, 0, 2, comms[1]);
    MPI_Recv(&got, 1, MPI_INT, 0, 3, comms[1], MPI_STATUS_IGNORE);
    MPI_Win_unlock(0, window);
    CHECK(got == step);
  }
}

static void files_beside_windows(void) {
  const pthread_t thread = begin(make_windows);
  for (int i = 0; i < 5; i++) {
    MPI_File file;
    CHECK(MPI_File_open(comms[1], name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
          MPI_SUCCESS);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_write_ordered(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
  }
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  snprintf(name, sizeof name, "%s/threads.%d", directory_option(argc, argv), ranks);
  for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  for (int step = 1; step <= o.steps; step++) {
    fence_and_send(step);
    MPI_Barrier(MPI_COMM_WORLD);
    lock_and_send(step);
    MPI_Barrier(MPI_COMM_WORLD);
    if (step % 4 == 1) files_beside_windows();
    report_step(step, o.step_ms);
    mix_int(step);
  }
  MPI_Win_free(&window);
  for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
  finish();
  return 0;
}
