// SPDX-License-Identifier: Apache-2.0
// Row: threads created and ended all the time, joined and detached
#include <pthread.h>

#include "../check.h"

static uint64_t detached_sum;

static void *joined(void *argument) {
  static __thread uint64_t local = 7;
  local = local * 31 + (uint64_t)(intptr_t)argument;
  return (void *)(intptr_t)(local & 0xffff);
}
static void *detached(void *argument) {
  __atomic_add_fetch(&detached_sum, (uint64_t)(intptr_t)argument, __ATOMIC_RELAXED);
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  uint64_t expected = 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  for (int step = 1; step <= o.steps; step++) {
    const double end = now_seconds() + 1e-3 * o.step_ms;
    int round = 0;
    do {
      pthread_t threads[4], loose;
      for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, joined, (void *)(intptr_t)(step + i)) == 0);
      CHECK(pthread_create(&loose, &attributes, detached, (void *)(intptr_t)step) == 0);
      expected += (uint64_t)step;
      for (int i = 0; i < 4; i++) {
        void *result = NULL;
        CHECK(pthread_join(threads[i], &result) == 0);
        CHECK((intptr_t)result == ((7 * 31 + step + i) & 0xffff));
        if (round == 0) mix_int((intptr_t)result);
      }
      round++;
    } while (now_seconds() < end);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, 0);
  }
  while (__atomic_load_n(&detached_sum, __ATOMIC_RELAXED) != expected) pause_ms(1);
  finish();
  return 0;
}
