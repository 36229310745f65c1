// SPDX-License-Identifier: Apache-2.0
// What every test program shares: options, a hash that must not depend on timing or on the MPI
// implementation, and the last line `PASS <checksum>` by which runs are compared.
//
// Options: --steps N, --step-ms M (pause per step, so that a checkpoint can hit the program
// anywhere), --size S (program-specific), --hold-file FILE. Rank 0 prints `step K` after each step.
// The last step waits while that file, or $CHECK_HOLD, exists, so that no checkpoint comes too late
// on a busy machine.
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct options {
  int steps, step_ms, size;
};

static int rank, ranks, last_step;
static const char *hold_file;
static uint64_t state_hash = 0xcbf29ce484222325u;

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) check_failed(#condition, __FILE__, __LINE__);                       \
  } while (0)

static inline void check_failed(const char *condition, const char *file, int line) {
  printf("FAIL rank %d: %s (%s:%d)\n", rank, condition, file, line);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
  exit(3);
}

// FNV-1a over the bytes.
static inline void mix(const void *data, size_t bytes) {
  const unsigned char *p = (const unsigned char *)data;
  for (size_t i = 0; i < bytes; i++) state_hash = (state_hash ^ p[i]) * 0x100000001b3u;
}

static inline void mix_int(long long value) { mix(&value, sizeof value); }

static inline struct options parse_options(int argc, char **argv, int steps, int size) {
  struct options o = {steps, 0, size};
  hold_file = getenv("CHECK_HOLD");
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], "--hold-file")) hold_file = argv[i + 1];
    if (!strcmp(argv[i], "--steps")) o.steps = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--step-ms")) o.step_ms = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--size")) o.size = atoi(argv[i + 1]);
  }
  last_step = o.steps;
  return o;
}

// Whether an option that takes no value is given.
static inline int has_option(int argc, char **argv, const char *name) {
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], name)) return 1;
  return 0;
}

// The directory given with --dir; "." without it.
static inline const char *directory_option(int argc, char **argv) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--dir")) return argv[i + 1];
  return ".";
}

static inline double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Computes, without any MPI or system call but the clock, for about `ms` milliseconds.
static inline void compute_ms(int ms) {
  static volatile double sink;
  const double end = now_seconds() + 1e-3 * ms;
  while (now_seconds() < end)
    for (int i = 0; i < 2000; i++) sink = sink * 0.5 + i;
}

// Sleeps for `ms` milliseconds in all, whatever signals arrive.
static inline void pause_ms(int ms) {
  struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
  while (ms > 0 && nanosleep(&left, &left) != 0) {
  }
}

static inline void know_world(void) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

static inline void start(int *argc, char ***argv) {
  CHECK(MPI_Init(argc, argv) == MPI_SUCCESS);
  know_world();
}

// For programs whose threads call MPI at any time.
static inline void start_threads(int *argc, char ***argv) {
  int provided = -1;
  CHECK(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
  know_world();
  CHECK(provided == MPI_THREAD_MULTIPLE);
}

static inline void say_step(int step) {
  if (rank != 0) return;
  printf("step %d\n", step);
  fflush(stdout);
}

// Stays in the last step until the test lets go of it. To be called where no other rank counts on
// this one's next call: a checkpoint may have to wait for that.
static inline void hold_step(int step) {
  while (step == last_step && hold_file && access(hold_file, F_OK) == 0) pause_ms(1);
}

static inline void report_step(int step, int step_ms) {
  say_step(step);
  pause_ms(step_ms);
  hold_step(step);
}

// Combines the hashes of all ranks and prints the last line.
static inline void finish(void) {
  uint64_t all[1024];
  CHECK(ranks <= 1024);
  MPI_Gather(&state_hash, 8, MPI_BYTE, all, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    state_hash = 0xcbf29ce484222325u;
    mix(all, (size_t)ranks * 8);
    printf("PASS %016llx\n", (unsigned long long)state_hash);
    fflush(stdout);
  }
  MPI_Finalize();
}

#endif
