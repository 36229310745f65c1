// SPDX-License-Identifier: Apache-2.0
// A rod that cools, in parts: a program that saves itself by SCR's calls, in their documented
// order. It begins with the newest checkpoint that there is, takes one when it is advised to,
// writes a picture every 20 steps, and ends when the job is to end.
//
//     mpirun -n 4 heat [STEPS [MILLISECONDS PER STEP]]
//
// SCR_CHECKPOINT_INTERVAL=5 SCR_CACHE_BYPASS=0 is a configuration to try it with.
#include <mpi.h>
#include <scr.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CELLS = 50000, PICTURE = 20 };

struct rod {
  int step;
  double cells[CELLS + 2];  // with the neighbours' nearest ones
};

static int rank, ranks;

// The file of this rank in a dataset: a directory below the prefix directory, and a name.
static void name_file(const char *dataset, char *name) {
  snprintf(name, SCR_MAX_FILENAME, "%.900s/rank_%d.heat", dataset, rank);
}

static int write_rod(const char *dataset, const struct rod *rod) {
  char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME];
  name_file(dataset, name);
  if (SCR_Route_file(name, file) != SCR_SUCCESS) return 0;
  FILE *stream = fopen(file, "w");
  if (!stream) return 0;
  const int is_written = fwrite(rod, sizeof *rod, 1, stream) == 1;
  return fclose(stream) == 0 && is_written;
}

static int read_rod(const char *dataset, struct rod *rod) {
  char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME];
  name_file(dataset, name);
  if (SCR_Route_file(name, file) != SCR_SUCCESS) return 0;
  FILE *stream = fopen(file, "r");
  if (!stream) return 0;
  const int is_read = fread(rod, sizeof *rod, 1, stream) == 1;
  fclose(stream);
  return is_read;
}

static void begin(struct rod *rod) {
  rod->step = 0;
  for (int i = 0; i < CELLS + 2; i++) rod->cells[i] = rank + (i % 97) / 97.0;
}

// Tries one checkpoint after the other, the newest first.
static void restart(struct rod *rod) {
  for (;;) {
    int is_there = 0;
    char dataset[SCR_MAX_FILENAME];
    SCR_Have_restart(&is_there, dataset);
    if (!is_there) break;
    SCR_Start_restart(dataset);
    const int is_valid = read_rod(dataset, rod);
    if (SCR_Complete_restart(is_valid) == SCR_SUCCESS) {
      if (rank == 0) printf("restarted from %s\n", dataset);
      return;
    }
  }
  if (rank == 0) printf("begun anew\n");
  begin(rod);
}

static void output(const struct rod *rod, const char *what, int flags) {
  char dataset[SCR_MAX_FILENAME];
  snprintf(dataset, sizeof dataset, "%s.%d", what, rod->step);
  if (SCR_Start_output(dataset, flags) != SCR_SUCCESS) return;
  const int is_valid = write_rod(dataset, rod);
  const int code = SCR_Complete_output(is_valid);
  if (rank == 0) printf("%s %s\n", code == SCR_SUCCESS ? "saved" : "failed to save", dataset);
}

static void compute(struct rod *rod) {
  double *const cells = rod->cells;
  const int left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  MPI_Sendrecv(&cells[1], 1, MPI_DOUBLE, left, 0, &cells[CELLS + 1], 1, MPI_DOUBLE, right, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(&cells[CELLS], 1, MPI_DOUBLE, right, 0, &cells[0], 1, MPI_DOUBLE, left, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  double before = cells[0];
  for (int i = 1; i <= CELLS; i++) {
    const double here = cells[i];
    cells[i] += 0.25 * (before - 2 * here + cells[i + 1]);
    before = here;
  }
  rod->step++;
}

// In the order of the cells, so that it is the same with and without a restart.
static double sum_all(const struct rod *rod) {
  double mine = 0, all = 0;
  for (int i = 1; i <= CELLS; i++) mine += rod->cells[i] * (i % 7);
  double *parts = malloc(ranks * sizeof *parts);
  MPI_Allgather(&mine, 1, MPI_DOUBLE, parts, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; i++) all += parts[i];
  free(parts);
  return all;
}

int main(int argc, char **argv) {
  static struct rod rod;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int steps = argc > 1 ? atoi(argv[1]) : 100;
  const int step_ms = argc > 2 ? atoi(argv[2]) : 0;
  setvbuf(stdout, NULL, _IOLBF, 0);

  if (SCR_Init() != SCR_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  restart(&rod);
  int is_over = 0;
  while (rod.step < steps && !is_over) {
    compute(&rod);
    usleep(1000 * step_ms);
    if (rank == 0) printf("step %d\n", rod.step);

    int is_needed = 0;
    SCR_Need_checkpoint(&is_needed);
    if (is_needed) output(&rod, "ckpt", SCR_FLAG_CHECKPOINT);
    if (rod.step % PICTURE == 0) output(&rod, "picture", SCR_FLAG_OUTPUT);
    SCR_Should_exit(&is_over);
  }
  if (rank == 0 && is_over) printf("stopped at step %d\n", rod.step);
  const double sum = sum_all(&rod);
  if (rank == 0 && rod.step == steps) printf("PASS %.17g\n", sum);
  if (SCR_Finalize() == SCR_SUCCESS && rank == 0) printf("finished\n");
  MPI_Finalize();
  return 0;
}
