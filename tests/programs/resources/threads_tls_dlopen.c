// SPDX-License-Identifier: Apache-2.0
// Row: thread-local data of a library loaded at run time, in threads made before and after
// The library is plugin.so of tests/programs; its `plugin_count` counts the calls of each thread.
#include <dlfcn.h>
#include <pthread.h>

#include "../check.h"

#define WORKERS 4

static pthread_barrier_t meet;
static int (*plugin_count)(void);
static int stopping;

static void *work(void *argument) {
  (void)argument;
  int calls = 0;
  for (;;) {
    pthread_barrier_wait(&meet);
    if (stopping) return (void *)(intptr_t)calls;
    CHECK(plugin_count() == ++calls);
    pthread_barrier_wait(&meet);
  }
}

static void load(const char *program) {
  char path[1024];
  snprintf(path, sizeof path, "%s", program);
  char *slash = strrchr(path, '/');
  CHECK(slash);
  *slash = 0;  // .../resources/threads_tls_dlopen: the library lies one folder up
  slash = strrchr(path, '/');
  CHECK(slash && slash + sizeof "/plugin.so" < path + sizeof path);
  strcpy(slash, "/plugin.so");
  void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) printf("%s\n", dlerror());
  CHECK(library);
  plugin_count = (int (*)(void))dlsym(library, "plugin_count");
  CHECK(plugin_count);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_barrier_init(&meet, NULL, WORKERS + 1);
  pthread_t threads[WORKERS];
  int made = 0, calls = 0;
  for (; made < WORKERS / 2; made++)
    CHECK(pthread_create(&threads[made], NULL, work, NULL) == 0);
  load(argv[0]);
  for (; made < WORKERS; made++)
    CHECK(pthread_create(&threads[made], NULL, work, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    pthread_barrier_wait(&meet);
    if (step > o.steps / 2) CHECK(plugin_count() == ++calls);  // its data here: not made before
    pthread_barrier_wait(&meet);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(calls);
  }
  stopping = 1;
  pthread_barrier_wait(&meet);
  for (int i = 0; i < WORKERS; i++) {
    void *result;
    CHECK(pthread_join(threads[i], &result) == 0);
    mix_int((intptr_t)result);
  }
  finish();
  return 0;
}
