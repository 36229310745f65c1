// SPDX-License-Identifier: Apache-2.0
// A program that wants a say (fermata.h). --mode says which part of the interface it uses:
//   present    prints the version it runs under
//   section    in step 2 rank 1 computes in a critical section until there is $CHECK_HOLD.leave,
//              and a thread of it waits in one until there is $CHECK_HOLD.leave_thread
//   now        all ranks ask for a checkpoint at step 3
//   soon       rank 0 asks for one at step 3, and goes on
#include <fermata.h>
#include <pthread.h>

#include "check.h"

static const char *mode = "present";
static volatile int inside;  // sections

static int has_come(const char *suffix) {
  char path[4096];
  snprintf(path, sizeof path, "%s.%s", hold_file ? hold_file : "", suffix);
  return access(path, F_OK) == 0;
}

static void say(const char *what, int value) {
  printf("rank %d: %s %d\n", rank, what, value);
  fflush(stdout);
}

static void *thread_section(void *unused) {
  CHECK(fermata_critical_begin("of a thread") == (fermata_version() ? 0 : FERMATA_ABSENT));
  __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  while (hold_file && !has_come("leave_thread")) pause_ms(1);
  __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  fermata_critical_end();
  return unused;
}

// Computes in its sections, so that only a signal can reach it there.
static void sections(void) {
  const int there = fermata_version() ? 0 : FERMATA_ABSENT;
  CHECK(fermata_critical_end() == (there ? there : FERMATA_MISUSE));
  if (rank != 1) return;
  CHECK(fermata_critical_begin("moving the mesh") == there);
  CHECK(fermata_critical_begin("inner") == there);
  CHECK(fermata_critical_end() == there);
  __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  say("inside", 1);
  while (hold_file && !has_come("leave")) compute_ms(1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, thread_section, NULL) == 0);
  while (hold_file && inside != 2) pause_ms(1);
  __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
  CHECK(fermata_critical_end() == there);
  say("left", 1);
  while (inside) compute_ms(1);
  pthread_join(thread, NULL);
}

static void ask_now(void) {
  char why[200] = "?";
  if (rank == 1 && hold_file && has_come("late"))
    while (!has_come("leave")) pause_ms(1);
  const int result = fermata_checkpoint(why, sizeof why);
  say(result == FERMATA_COMMITTED   ? "committed"
      : result == FERMATA_RESTARTED ? "restarted"
      : result == FERMATA_FAILED    ? "failed"
                                    : "absent",
      result);
  printf("rank %d because: %s\n", rank, why);
  fflush(stdout);
  CHECK(fermata_version() ? result != FERMATA_ABSENT : result == FERMATA_ABSENT && !why[0]);
}

static void step_of_mode(int step) {
  if (!strcmp(mode, "section") && step == 2) sections();
  if (!strcmp(mode, "now") && step == 3) ask_now();
  if (!strcmp(mode, "soon") && step == 3 && rank == 0)
    CHECK(fermata_request() == (fermata_version() ? 0 : FERMATA_ABSENT));
}

int main(int argc, char **argv) {
  const struct options o = parse_options(argc, argv, 10, 1000);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--mode")) mode = argv[i + 1];
  start(&argc, &argv);
  if (rank == 0) printf("version %s\n", fermata_version() ? fermata_version() : "none");
  double *const values = malloc(sizeof *values * (size_t)o.size);
  for (int i = 0; i < o.size; i++) values[i] = rank + i;
  for (int step = 1; step <= o.steps; step++) {
    step_of_mode(step);
    MPI_Allreduce(MPI_IN_PLACE, values, o.size, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < o.size; i++) values[i] += rank + step;
    report_step(step, o.step_ms);
  }
  mix(values, sizeof *values * (size_t)o.size);
  finish();
  return 0;
}
