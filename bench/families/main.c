// SPDX-License-Identifier: Apache-2.0
// What calls of many families cost, on two ranks of one machine: a line for each,
// `family, name, wall nanoseconds, processor nanoseconds`, separated by tabs. Each case runs in
// many short blocks and reports a low percentile of them (those that nothing disturbed, for the
// machine may be shared); bench/families.py interleaves whole runs.
//
//   families [--threads] [--only WORD] FILE     FILE: where MPI-IO may write
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "family.h"

enum { kBlocks = 20, kPercentile = 10 };
static const double kBlockNs = 3e5;  // at most

int rank, peer;
char sending[kBufferBytes], receiving[kBufferBytes];
double numbers[kBufferBytes / 8], results[kBufferBytes / 8];
MPI_Datatype vector_type, struct_type, indexed_type;
MPI_Request requests[kMaxRequests];
MPI_Status statuses[kMaxRequests], status;

static const char *only = "";

static double now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

struct Times {
  double wall, cpu;
};

static struct Times block(const struct Case *c, int n) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double cpu_began = now_ns(CLOCK_PROCESS_CPUTIME_ID), began = now_ns(CLOCK_MONOTONIC);
  c->run(n, c->argument);
  const double wall = now_ns(CLOCK_MONOTONIC) - began;
  return (struct Times){wall, now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_began};
}

// How many rounds make a block; the same on both ranks. The shortest of three counts: a rank that
// had to wait for its processor once is no measure.
static int calibrate(const struct Case *c) {
  for (int n = 1;; n *= 4) {
    double shortest = kBlockNs;
    for (int i = 0; i < 3; i++) {
      const double took = block(c, n).wall;
      if (took < shortest) shortest = took;
    }
    MPI_Bcast(&shortest, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (shortest >= kBlockNs / 4) return n;
  }
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const struct Case *c) {
  double wall[kBlocks], cpu[kBlocks];
  const int n = calibrate(c);
  for (int i = 0; i < kBlocks; i++) {
    const struct Times times = block(c, n);
    wall[i] = times.wall / n / c->divisor;
    cpu[i] = times.cpu / n / c->divisor;
  }
  qsort(wall, kBlocks, sizeof *wall, ascending);
  qsort(cpu, kBlocks, sizeof *cpu, ascending);
  if (rank != 0) return;
  const int at = kBlocks * kPercentile / 100;
  printf("%s\t%s\t%.2f\t%.2f\n", c->family, c->name, wall[at], cpu[at]);
  fflush(stdout);
}

static void measure_all(const struct Case *cases) {
  for (const struct Case *c = cases; c->name; c++)
    if (strstr(c->name, only) || strstr(c->family, only)) measure(c);
}

static void make_types(void) {
  MPI_Type_vector(64, 1, 8, MPI_DOUBLE, &vector_type);
  int lengths[128] = {1, 2, 3}, places[128];
  MPI_Aint offsets[3] = {0, 16, 64};
  MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
  MPI_Type_create_struct(3, lengths, offsets, types, &struct_type);
  for (int i = 0; i < 128; i++) {
    lengths[i] = 1 + i % 2;
    places[i] = i * 4;
  }
  MPI_Type_indexed(128, lengths, places, MPI_DOUBLE, &indexed_type);
  MPI_Type_commit(&vector_type);
  MPI_Type_commit(&struct_type);
  MPI_Type_commit(&indexed_type);
}

static void measure_one_thread(const char *path) {
  make_types();
  measure_all(local_cases);
  measure_all(request_cases);
  measure_all(message_cases);
  begin_collectives();
  measure_all(collective_cases);
  end_collectives();
  measure_all(object_cases);
  begin_windows();
  measure_all(window_cases);
  end_windows();
  begin_files(path);
  measure_all(file_cases);
  end_files();
  MPI_Type_free(&vector_type);
  MPI_Type_free(&struct_type);
  MPI_Type_free(&indexed_type);
}

int main(int argc, char **argv) {
  int threads = 0, size, level;
  const char *path = "families.data";
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--threads")) threads = 1;
    else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
    else path = argv[i];
  }
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2 || (threads && level != MPI_THREAD_MULTIPLE)) {
    fprintf(stderr, "families: run me on two ranks of an MPI that has threads\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  peer = 1 - rank;
  if (threads) measure_all(thread_cases);
  else measure_one_thread(path);
  MPI_Finalize();
  return 0;
}
