// SPDX-License-Identifier: Apache-2.0
// Row: oom_score_adj and coredump_filter, I/O priorities of threads, SCHED_RESET_ON_FORK
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

static int stopping, wrong;

static long io_priority(int kind, int level) { return kind << 13 | level; }

static void put(const char *path, const char *text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  CHECK(file >= 0 && write(file, text, strlen(text)) > 0 && close(file) == 0);
}
static long number(const char *path, int base) {
  char text[32] = "";
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0 && close(file) == 0);
  return strtol(text, NULL, base);
}

static void *work(void *ready) {
  CHECK(syscall(SYS_ioprio_set, 1, 0, io_priority(3, 0)) == 0);  // idle
  __atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
    if (syscall(SYS_ioprio_get, 1, 0) != io_priority(3, 0)) wrong = 1;
    usleep(1000);
  }
  return NULL;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const struct sched_param none = {0};
  pthread_t thread;
  int ready = 0;
  CHECK(pthread_create(&thread, NULL, work, &ready) == 0);
  while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) usleep(1000);
  CHECK(syscall(SYS_ioprio_set, 1, 0, io_priority(2, 6)) == 0);  // best effort
  CHECK(sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &none) == 0);
  const long score = number("/proc/self/oom_score_adj", 10) + 7;
  char text[32];
  snprintf(text, sizeof text, "%ld", score);
  put("/proc/self/oom_score_adj", text);
  put("/proc/self/coredump_filter", "0x1f");
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(number("/proc/self/oom_score_adj", 10) == score);
    CHECK(number("/proc/self/coredump_filter", 16) == 0x1f);
    CHECK(syscall(SYS_ioprio_get, 1, 0) == io_priority(2, 6) && !wrong);
    CHECK(sched_getscheduler(0) == (SCHED_OTHER | SCHED_RESET_ON_FORK));
    mix_int(step);
  }
  __atomic_store_n(&stopping, 1, __ATOMIC_RELEASE);
  CHECK(pthread_join(thread, NULL) == 0 && !wrong);
  finish();
  return 0;
}
