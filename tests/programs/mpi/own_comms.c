// SPDX-License-Identifier: Apache-2.0
// Windows, files and persistent collectives on MPI_COMM_WORLD and MPI_COMM_SELF, made and freed in
// orders that change: what one of them leaves may serve the next one. The requests are freed at
// another time on each rank.
// --beyond 1: windows on MPI_COMM_SELF, too, which Open MPI 4.1 refuses.
#include "../check.h"
#include "../persistent.h"

enum { kWindows = 3, kEach = 4 };

static MPI_Win window[kWindows];
static int *memory[kWindows];
static int told, kinds = 2;

static void make_window(int k, int kind) {
  static int own[kWindows][16] __attribute__((aligned(64)));  // MPICH misses others
  memory[k] = own[k];
  if (kind == 0)
    MPI_Win_create(own[k], sizeof own[k], 4, MPI_INFO_NULL, MPI_COMM_WORLD, &window[k]);
  else if (kind == 1)
    MPI_Win_allocate(sizeof own[k], 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory[k], &window[k]);
  else MPI_Win_create(own[k], sizeof own[k], 4, MPI_INFO_NULL, MPI_COMM_SELF, &window[k]);
}

// Everybody tells the next one, or itself.
static void use_window(int k, int kind, int value) {
  const int to = kind == 2 ? 0 : (rank + 1) % ranks;
  const int from = kind == 2 ? rank : (rank + ranks - 1) % ranks, mine = value + rank;
  MPI_Win_fence(0, window[k]);
  MPI_Put(&mine, 1, MPI_INT, to, 0, 1, MPI_INT, window[k]);
  MPI_Win_fence(0, window[k]);
  CHECK(*memory[k] == value + from);
  MPI_Win_lock(MPI_LOCK_SHARED, to, 0, window[k]);
  MPI_Win_unlock(to, window[k]);
  mix_int(value);
}

static void use_file(const char *name, MPI_Comm comm, int value) {
  MPI_File file;
  int back = -1;
  CHECK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) ==
        MPI_SUCCESS);
  MPI_File_write_at_all(file, 4 * rank, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_read_at_all(file, 4 * rank, &back, 1, MPI_INT, MPI_STATUS_IGNORE);
  CHECK(back == value);
  MPI_File_close(&file);
}

// One that cannot be opened leaves what it had as well.
static void miss_file(const char *name) {
  MPI_File file = MPI_FILE_NULL;
  CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);
}

static void tell(MPI_Request *request, int value) {
  told = rank == 0 ? value : -1;
  MPI_Start(request);
  MPI_Wait(request, MPI_STATUS_IGNORE);
  CHECK(told == value);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 8, 0);
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--beyond")) kinds = 3;
  const char *const directory = directory_option(argc, argv);
  char name[4096], alone[4096], missing[4096];
  snprintf(name, sizeof name, "%s/own.%d", directory, ranks);
  snprintf(alone, sizeof alone, "%s/own.%d.%d", directory, ranks, rank);
  snprintf(missing, sizeof missing, "%s/none.%d", directory, ranks);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Request one, other;
    for (int k = 0; k < kWindows; k++) make_window(k, (step + k) % kinds);
    PERSISTENT(Bcast_init)(&told, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &one);
    for (int i = 0; i < kEach; i++) {
      const int k = (step + i) % kWindows;
      MPI_Win_free(&window[k]);
      use_file(name, MPI_COMM_WORLD, 100 * step + i);
      use_file(alone, MPI_COMM_SELF, 10 * step + i);
      make_window(k, (step + k + i) % kinds);
      use_window(k, (step + k + i) % kinds, 1000 * step + i);
    }
    tell(&one, step);
    if (rank % 2) MPI_Request_free(&one);
    miss_file(missing);
    PERSISTENT(Bcast_init)(&told, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &other);
    report_step(step, o.step_ms);
    if (rank % 2 == 0) MPI_Request_free(&one);
    tell(&other, -step);
    for (int k = kWindows; k-- > 0;) MPI_Win_free(&window[k]);
    MPI_Request_free(&other);
  }
  finish();
  return 0;
}
