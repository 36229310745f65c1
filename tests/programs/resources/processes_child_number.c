// SPDX-License-Identifier: Apache-2.0
// Row: a child whose process id is that of a thread from before a restart, killed and waited for
//
// The kernel gives out the number again once the process of the earlier life is gone; where the
// program may, it asks for it. Then the child is what kill(2) means, and the thread what tgkill(2)
// and the scheduling calls mean.
#define _GNU_SOURCE
#include "../check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static pid_t number;  // of the thread
static volatile sig_atomic_t hits, ends;

static void hit(int signal) {
  (void)signal;
  if ((pid_t)syscall(SYS_gettid) == number) hits++;
}

static void *wait_for_end(void *unused) {
  number = (pid_t)syscall(SYS_gettid);
  while (!ends) pause_ms(1);
  return unused;
}

// Tells the kernel which number was given out last, unless that is less and it is to be `more`.
// Returns that of before, 0 if it may not.
static int set_last(int last, int more) {
  char text[16] = "";
  const int file = open("/proc/sys/kernel/ns_last_pid", O_RDWR | O_CLOEXEC);
  int before = file >= 0 && read(file, text, sizeof text - 1) > 0 ? atoi(text) : 0;
  const int length = snprintf(text, sizeof text, "%d", last);
  if (before && !(more && last <= before) && pwrite(file, text, (size_t)length, 0) != length)
    before = 0;
  if (file >= 0) close(file);
  return before;
}

// A child, with the thread's number if that can be had. Numbers that have just been given back are
// not given out to others: somebody may still be about to kill who had them. So one rank alone
// asks, for two would take each other's number for that of before; and after a restart in between
// numbers continue from where they are.
static pid_t make_child(void) {
  for (int attempt = 0;; attempt++) {
    const int before = rank == 0 ? set_last((int)number - 1, 0) : 0;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
      for (;;) pause();
    if (before) set_last(before, 1);
    if (child == number || !before || attempt == 3) return child;
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
  }
}

int main(int argc, char **argv) {
  pthread_t thread;
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 24, 0);
  const struct sigaction action = {.sa_handler = hit, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &action, NULL);
  CHECK(pthread_create(&thread, NULL, wait_for_end, NULL) == 0);
  while (!*(volatile pid_t *)&number) pause_ms(1);
  for (int step = 1; step <= o.steps; step++) {
    if (step % 2) {
      const int before = hits;
      const pid_t child = make_child();
      int status = 0;
      struct sched_param none = {0};
      CHECK(pthread_kill(thread, SIGUSR1) == 0);
      while (hits == before) pause_ms(1);
      CHECK(sched_setscheduler(number, SCHED_BATCH, &none) == 0);
      CHECK(sched_getscheduler(number) == SCHED_BATCH);
      CHECK(sched_setscheduler(number, SCHED_OTHER, &none) == 0);
      CHECK(kill(child, SIGTERM) == 0);
      CHECK(waitpid(child, &status, 0) == child);
      CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    mix_int(step);
  }
  ends = 1;
  pthread_join(thread, NULL);
  finish();
  return 0;
}
