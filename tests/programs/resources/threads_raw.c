// SPDX-License-Identifier: Apache-2.0
// Row: threads made by clone(2) itself, without thread-local storage of their own
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

enum { kStack = 64 << 10, kComputes = 0, kSleeps = 1 };
static volatile long counts[2];
static int stopping, ended[2];

/// Neither errno nor anything else of a thread's own may be touched here.
static int work(void *argument) {
  const int me = (int)(intptr_t)argument;
  const struct timespec pause = {0, 1000000};
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    if (me == kSleeps) {
      long result;
      __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_nanosleep), "D"(&pause), "S"(0)
                       : "rcx", "r11", "memory");
      if (result != 0) continue;
    }
    counts[me]++;
  }
  __atomic_store_n(&ended[me], 1, __ATOMIC_RELEASE);
  return 0;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  for (int i = 0; i < 2; i++) {
    char *const stack =
        mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    const int flags =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    CHECK(clone(work, stack + kStack, flags, (void *)(intptr_t)i) > 0);
  }
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    for (int i = 0; i < 2; i++) {
      const long before = counts[i];
      while (counts[i] == before) pause_ms(1);
    }
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < 2; i++)
    while (!__atomic_load_n(&ended[i], __ATOMIC_ACQUIRE)) pause_ms(1);
  finish();
  return 0;
}
