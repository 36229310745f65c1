// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loops.h"

static void loading(struct worker *w) {
  static const char *const names[] = {"libanl.so.1", "libBrokenLocale.so.1"};
  void *const library = dlopen(names[w->id], RTLD_NOW | RTLD_LOCAL);
  EXPECT(library != NULL);
  EXPECT(dlclose(library) == 0);
}

static __thread uint64_t of_thread = 41;

static void *short_life(void *argument) {
  EXPECT(of_thread == 41);
  of_thread = (uint64_t)argument;
  return (void *)(of_thread + 1);
}

static void making_threads(struct worker *w) {
  pthread_t thread;
  void *result = NULL;
  const uint64_t number = w->turn << 1 | (uint64_t)w->id;
  EXPECT(pthread_create(&thread, NULL, short_life, (void *)number) == 0);
  EXPECT(pthread_join(thread, &result) == 0);
  EXPECT((uint64_t)result == number + 1);
}

// Not all the time: a checkpoint waits for a moment without children.
static void making_processes(struct worker *w) {
  int status = -1;
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    _exit(8);
  }
  EXPECT(child > 0);
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  (void)w;
  spin(20000);
}

const struct loop process_loops[] = {
    {"dlopen", loading, NULL, NULL, 2, 0},
    {"threads", making_threads, NULL, NULL, 2, 0},
    {"fork_exec", making_processes, NULL, NULL, 1, 0},
    {NULL, NULL, NULL, NULL, 0, 0},
};
