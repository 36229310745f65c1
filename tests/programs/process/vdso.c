// SPDX-License-Identifier: Apache-2.0
// The C library finds the vdso's functions (else every look at the clock is a system call), and
// they work at the same addresses after a restart.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "../check.h"

typedef int (*clock_function)(clockid_t, struct timespec *);

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 5, 0);
  void *const vdso = dlopen("linux-vdso.so.1", RTLD_NOLOAD | RTLD_NOW);
  CHECK(vdso != NULL);
  const clock_function read_clock =
      (clock_function)dlvsym(vdso, "__vdso_clock_gettime", "LINUX_2.6");
  CHECK(read_clock != NULL);
  for (int step = 1; step <= o.steps; step++) {
    struct timespec before, between, after;
    clock_gettime(CLOCK_REALTIME, &before);
    CHECK(read_clock(CLOCK_REALTIME, &between) == 0);
    clock_gettime(CLOCK_REALTIME, &after);
    CHECK(before.tv_sec <= between.tv_sec && between.tv_sec <= after.tv_sec);
    mix_int(step);
    report_step(step, o.step_ms);
  }
  finish();
  return 0;
}
