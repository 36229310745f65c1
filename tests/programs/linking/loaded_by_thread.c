// SPDX-License-Identifier: Apache-2.0
// The library that needs MPI (thread_plugin.so, beside the program) is loaded by a second thread,
// while the main thread waits for that one and never calls MPI: as Java does it.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int argument_count;
static char **arguments;

static void *work(void *unused) {
  char path[1024];
  const char *slash = strrchr(arguments[0], '/');
  snprintf(path, sizeof path, "%.*sthread_plugin.so", slash ? (int)(slash + 1 - arguments[0]) : 2,
           slash ? arguments[0] : "./");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    printf("%s\n", dlerror());
    exit(2);
  }
  void (*plugin_main)(int, char **) = (void (*)(int, char **))dlsym(library, "plugin_main");
  plugin_main(argument_count, arguments);
  return unused;
}

int main(int argc, char **argv) {
  argument_count = argc;
  arguments = argv;
  pthread_t thread;
  if (pthread_create(&thread, NULL, work, NULL) != 0) return 2;
  return pthread_join(thread, NULL);
}
