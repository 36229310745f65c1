// SPDX-License-Identifier: Apache-2.0
// Row: memory policies: of threads (set_mempolicy) and of ranges (mbind), private and shared
#define _GNU_SOURCE
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

enum { kPage = 4096, kWords = 16, kNodes = 64 * kWords };
static int stopping, wrong;

static void set_thread(int mode) {
  const unsigned long nodes[kWords] = {1};
  CHECK(syscall(SYS_set_mempolicy, mode, nodes, kNodes) == 0);
}
static void set_range(char *at, size_t bytes, int mode) {
  const unsigned long nodes[kWords] = {1};
  CHECK(syscall(SYS_mbind, at, bytes, mode, nodes, kNodes, 0) == 0);
}
static int mode_of(const char *at) {
  unsigned long nodes[kWords] = {0};
  int mode = -1;
  if (syscall(SYS_get_mempolicy, &mode, nodes, kNodes, at, at ? MPOL_F_ADDR : 0) != 0) return -1;
  return mode == MPOL_DEFAULT || nodes[0] == 1 ? mode : -1;
}

static void *work(void *ready) {
  set_thread(MPOL_BIND);
  __atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    if (mode_of(NULL) != MPOL_BIND) wrong = 1;
    usleep(1000);
  }
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_t thread;
  int ready = 0;
  CHECK(pthread_create(&thread, NULL, work, &ready) == 0);
  while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) usleep(1000);
  set_thread(MPOL_PREFERRED);
  char *const own =
      mmap(NULL, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *const common =
      mmap(NULL, 8 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(own != MAP_FAILED && common != MAP_FAILED);
  set_range(own + kPage, 2 * kPage, MPOL_BIND | MPOL_F_STATIC_NODES);
  set_range(own + 4 * kPage, kPage, MPOL_INTERLEAVE);
  set_range(common + 4 * kPage, 4 * kPage, MPOL_INTERLEAVE);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(mode_of(NULL) == MPOL_PREFERRED && !wrong);
    CHECK(mode_of(own) == MPOL_DEFAULT && mode_of(own + 3 * kPage) == MPOL_DEFAULT);
    CHECK(mode_of(own + kPage) == (MPOL_BIND | MPOL_F_STATIC_NODES));
    CHECK(mode_of(own + 2 * kPage) == (MPOL_BIND | MPOL_F_STATIC_NODES));
    CHECK(mode_of(own + 4 * kPage) == MPOL_INTERLEAVE);
    CHECK(mode_of(common) == MPOL_DEFAULT);
    CHECK(mode_of(common + 4 * kPage) == MPOL_INTERLEAVE);
    own[kPage] = common[5 * kPage] = (char)step;
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(thread, NULL) == 0 && !wrong);
  finish();
  return 0;
}
