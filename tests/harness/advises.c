// SPDX-License-Identifier: Apache-2.0
// A component of Open MPI's that keeps the program's memory from children, as a network's library
// does with buffers that are sent from: every mapping of a file of the name advised.*.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *advise(void *unused) {
  char line[4400];
  for (int found = 0; !found; usleep(10000)) {
    FILE *const maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
      unsigned long from, to;
      if (strstr(line, "/advised.") && sscanf(line, "%lx-%lx", &from, &to) == 2)
        found = madvise((void *)from, to - from, MADV_DONTFORK) == 0;
    }
    if (maps) fclose(maps);
  }
  return unused;
}

__attribute__((constructor)) static void begin(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, advise, NULL);
}
