// SPDX-License-Identifier: Apache-2.0
// Collectives of a job of which processes are killed from outside at any moment: kills CALLS
// FIRST MIXED DIRECTORY. Each process writes what each call gave it into DIRECTORY/RANK, a line for
// a call, before it enters the next one: who reads the files knows whether all agree. A line is
// `CALL WHAT VALUE MISSING MICROSECONDS`; all but the last word is the same at all processes. While
// DIRECTORY/hold.RANK is there the process does not enter the last fifth of its calls: it is to be
// killed before. In the end those who live mark another communicator that the dead are in.
#include <ftcoll_mpi.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kLarge = 20000, kRanksMax = 64, kPauseMicrosMax = 2000 };

static uint64_t micros(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

// A hash of the values and of nothing else: FNV-1a.
static uint64_t hash(const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t state = 0xcbf29ce484222325u;
  for (size_t i = 0; i < bytes; ++i) state = (state ^ p[i]) * 0x100000001b3u;
  return state;
}

// Sums a bit for each rank, and as many others as `count` says.
static int allreduce(MPI_Comm comm, int rank, int call, int count, uint64_t *value) {
  static uint64_t mine[kLarge], all[kLarge];
  mine[0] = (uint64_t)1 << rank;
  for (int i = 1; i < count; ++i) mine[i] = (uint64_t)rank * (uint64_t)i + (uint64_t)call;
  const int error = MPI_Allreduce(mine, all, count, MPI_UINT64_T, MPI_SUM, comm);
  *value = count == 1 ? all[0] : hash(all, (size_t)count * sizeof *all);
  return error;
}

static int one(MPI_Comm comm, int rank, int size, int call, int is_mixed, uint64_t *value) {
  const int root = call / 5 % size;
  uint64_t mine[2] = {(uint64_t)1 << rank, (uint64_t)call}, got[2] = {0, 0};
  *value = 0;
  switch (is_mixed ? call % 5 : 0) {
    case 1: {
      const int error = MPI_Bcast(mine, 2, MPI_UINT64_T, root, comm);
      *value = hash(mine, sizeof mine);
      return error;
    }
    case 2: return MPI_Reduce(mine, got, 2, MPI_UINT64_T, MPI_SUM, root, comm);
    case 3: return MPI_Barrier(comm);
    case 4: return allreduce(comm, rank, call, call % 2 ? 100 : kLarge, value);
    default: return allreduce(comm, rank, call, 1, value);
  }
}

// Whether a communicator that is marked now has the same processes missing as the one before.
static int mark_late(MPI_Comm late, MPI_Comm comm) {
  int one = 1, all = 0;
  ftc_ended ended = {0};
  MPI_Barrier(comm);
  ftc_last(comm, &ended);
  if (ftc_mark(late) != MPI_SUCCESS) return 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, late);
  return all == ended.contributions;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  if (argc != 5) return 2;
  const int calls = atoi(argv[1]), first = atoi(argv[2]), is_mixed = atoi(argv[3]);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > kRanksMax) return 2;
  char path[4096], hold[4096];
  snprintf(path, sizeof path, "%s/%d", argv[4], rank);
  snprintf(hold, sizeof hold, "%s/hold.%d", argv[4], rank);
  FILE *const out = fopen(path, "w");
  MPI_Comm comm, late;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_dup(MPI_COMM_WORLD, &late);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (!out || ftc_mark(comm) != MPI_SUCCESS) return 3;
  uint64_t state = (uint64_t)rank + 1;
  for (int call = first; call < first + calls; ++call) {
    // Processes come to a call at different times.
    state = state * 6364136223846793005u + 1442695040888963407u;
    usleep((state >> 33) % kPauseMicrosMax);
    while (call - first >= calls / 5 * 4 && access(hold, F_OK) == 0) usleep(kPauseMicrosMax);
    uint64_t value;
    int32_t missing[kRanksMax];
    ftc_ended ended = {.missing = missing, .room = kRanksMax};
    const uint64_t began = micros();
    const int error = one(comm, rank, size, call, is_mixed, &value);
    const uint64_t took = micros() - began;
    const int code = ftc_last(comm, &ended);
    uint64_t lacks = 0;
    for (int i = 0; !error && i < size - ended.contributions; ++i) {
      lacks |= (uint64_t)1 << missing[i];
    }
    if (error) value = 0;
    fprintf(out, "%d %d %" PRIx64 " %" PRIx64 " %" PRIu64 "\n", call, code, value, lacks, took);
    fflush(out);
  }
  fclose(out);
  const int is_late_right = mark_late(late, comm);
  MPI_Finalize();
  if (is_late_right) printf("rank %d has come to its end\n", rank);
  return is_late_right ? 0 : 4;
}
