// SPDX-License-Identifier: Apache-2.0
// Row: a forked child without exec that allocates, maps memory and makes a thread of its own
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static void *twice(void *value) { return (void *)(2 * (intptr_t)value); }

static int child_work(int step) {
  char *block = malloc(1 << 22);
  char *map = mmap(NULL, 1 << 22, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!block || map == MAP_FAILED) return 1;
  memset(block, step, 1 << 22);
  memset(map, step, 1 << 22);
  pthread_t thread;
  void *result;
  if (pthread_create(&thread, NULL, twice, (void *)(intptr_t)step)) return 2;
  if (pthread_join(thread, &result) || (intptr_t)result != 2 * step) return 3;
  return memcmp(block, map, 1 << 22) ? 4 : 42;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int step = 1; step <= o.steps; step++) {
    const pid_t child = fork();
    if (child == 0) _exit(child_work(step));
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 42);
    mix_int(status);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
