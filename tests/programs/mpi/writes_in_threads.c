// SPDX-License-Identifier: Apache-2.0
// One thread begins and completes writes of a file while the other waits in a collective call for
// a late rank: the MPI advances the writes in both. With --beyond it makes all writes many times:
// where a rank has fewer CPUs than threads, Open MPI alone needs milliseconds for each.
// Option: --dir DIRECTORY.
#include <pthread.h>

#include "../check.h"

enum { kWrites = 20, kInts = 1024, kTimesBeyond = 100 };

static MPI_Comm meeting;
static MPI_File file;

static void *meet(void *unused) {
  MPI_Barrier(meeting);
  return unused;
}

static void write_some(int step) {
  int values[kInts];
  for (int i = 0; i < kWrites; i++) {
    MPI_Request request;
    MPI_Status status;
    int count = 0;
    for (int k = 0; k < kInts; k++) values[k] = 1000 * step + i + k;
    const MPI_Offset at = (MPI_Offset)((rank * kWrites + i) * sizeof values);
    CHECK(MPI_File_iwrite_at(file, at, values, kInts, MPI_INT, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == kInts);
  }
}

static void read_back(int step) {
  int values[kInts];
  for (int i = 0; i < kWrites; i++) {
    const MPI_Offset at = (MPI_Offset)((rank * kWrites + i) * sizeof values);
    MPI_File_read_at(file, at, values, kInts, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(values[0] == 1000 * step + i && values[kInts - 1] == values[0] + kInts - 1);
    mix_int(values[0]);
  }
}

int main(int argc, char **argv) {
  start_threads(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  int times = 1;
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--beyond")) times = kTimesBeyond;
  char name[4096];
  snprintf(name, sizeof name, "%s/written.%d", directory_option(argc, argv), ranks);
  MPI_Comm_dup(MPI_COMM_WORLD, &meeting);
  CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                      &file) == MPI_SUCCESS);
  for (int step = 1; step <= o.steps; step++) {
    const int late = step % ranks;
    pthread_t thread;
    if (rank != late) CHECK(pthread_create(&thread, NULL, meet, NULL) == 0);
    for (int i = 0; i < times; i++) write_some(step);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != late) CHECK(pthread_join(thread, NULL) == 0);
    else MPI_Barrier(meeting);
    read_back(step);
    report_step(step, o.step_ms);
  }
  MPI_File_close(&file);
  MPI_Comm_free(&meeting);
  finish();
  return 0;
}
