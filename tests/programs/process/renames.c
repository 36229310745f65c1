// SPDX-License-Identifier: Apache-2.0
// A thread gives itself a new name a hundred times a second. The name it has is always that of the
// number in memory, or of the next: also after a restart, where both come out of the image.
#include <pthread.h>
#include <sys/prctl.h>

#include "../check.h"

static int stopping;
static long number;

static void check_name(void) {
  char name[16] = "";
  long has = -1;
  CHECK(prctl(PR_GET_NAME, name) == 0 && sscanf(name, "number %ld", &has) == 1);
  if (has != number && has != number + 1) printf("%s, not %ld\n", name, number);
  CHECK(has == number || has == number + 1);
}

static void *rename_often(void *unused) {
  char name[16];
  prctl(PR_SET_NAME, "number 0");
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    check_name();
    snprintf(name, sizeof name, "number %ld", number + 1);
    CHECK(prctl(PR_SET_NAME, name) == 0);
    number++;
    pause_ms(10);
  }
  return unused;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, rename_often, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  finish();
  return 0;
}
