// SPDX-License-Identifier: Apache-2.0
// loops --loop NAME [--steps N] [--step-ms M] [--hold-file FILE]: steps of about M milliseconds of
// one tight loop, at least N and as long as the file is there. The clock of the steps is the
// processor's, so that no loop meets the kernel's but those that are about it.
#include "loops.h"

#include <pthread.h>

#include "../check.h"

static const struct loop *const families[] = {
    clock_loops,   signal_loops,   memory_loops,    transfer_loops,
    process_loops, register_loops, exception_loops, mpi_loops,
};
static const struct loop *chosen;
static volatile int over;

void expect(int good, const char *what, const char *file, int line) {
  if (!good) check_failed(what, file, line);
}

static const struct loop *find(const char *name) {
  for (size_t i = 0; i < sizeof families / sizeof *families; i++)
    for (const struct loop *loop = families[i]; loop->name; loop++)
      if (!strcmp(loop->name, name)) return loop;
  return NULL;
}

static void turn(struct worker *worker) {
  worker->turn++;
  chosen->turn(worker);
}

static void *second(void *argument) {
  struct worker *const worker = argument;
  if (chosen->begin) chosen->begin(worker);
  while (!over) turn(worker);
  if (chosen->end) chosen->end(worker);
  return NULL;
}

static void step(struct worker *worker, int step_ms) {
  if (chosen->turns) {
    for (int i = 0; i < chosen->turns; i++) turn(worker);
    return;
  }
  const uint64_t begin = ticks();
  do turn(worker);
  while (ticks() - begin < (uint64_t)step_ms * 2500000);
}

// Whether there is another step: all ranks take as many.
static int is_more(int done, int steps) {
  int more = done < steps || (hold_file && access(hold_file, F_OK) == 0);
  CHECK(MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
  return more;
}

int main(int argc, char **argv) {
  const char *name = "";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--loop")) name = argv[i + 1];
  start(&argc, &argv);
  struct options o = parse_options(argc, argv, 5, 0);
  if (!o.step_ms) o.step_ms = 10;
  chosen = find(name);
  CHECK(chosen != NULL);
  struct worker workers[2] = {{0, 0, NULL}, {1, 0, NULL}};
  pthread_t thread;
  if (chosen->begin) chosen->begin(&workers[0]);
  if (chosen->threads == 2) CHECK(pthread_create(&thread, NULL, second, &workers[1]) == 0);
  int done = 0;
  do {
    step(&workers[0], o.step_ms);
    int sum = 0;
    CHECK(MPI_Allreduce(&done, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(sum == done * ranks);
    say_step(++done);
  } while (is_more(done, o.steps));
  over = 1;
  if (chosen->threads == 2) CHECK(pthread_join(thread, NULL) == 0);
  if (chosen->end) chosen->end(&workers[0]);
  mix(name, strlen(name));
  finish();
  return 0;
}
