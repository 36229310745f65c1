// SPDX-License-Identifier: Apache-2.0
// Row: signals that are to save the job (FERMATA_SAVE_ON) are the program's own in all else
// Environment: FERMATA_SAVE_ON=10,12,15

// What a program can see of such a signal is what it sees natively: the default action, a mask
// without it, children that have neither, handlers, and what it sends to itself. Another process
// sends nothing here: natively that would be the end; the suite `held_signals` has it.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static volatile sig_atomic_t users;
static sigset_t held, taken_here;

static void on_user(int signal) { users += signal == SIGUSR1; }

static void on_term(int number) {
  signal(number, SIG_DFL);
  raise(number);
}

static int sees_nothing(void) {
  struct sigaction now;
  sigset_t mask;
  if (pthread_sigmask(SIG_BLOCK, NULL, &mask) != 0) return 0;
  for (int signal = 1; signal < 32; signal++) {
    if (!sigismember(&held, signal)) continue;
    if (sigaction(signal, NULL, &now) != 0 || now.sa_handler != SIG_DFL) return 0;
    if (sigismember(&mask, signal)) return 0;
  }
  return sigismember(&mask, SIGUSR2);
}

// How a fork of this process ends that is sent SIGTERM, or sends it to itself.
static int end_of_fork(int resets_itself) {
  int line[2];
  char byte;
  CHECK(pipe(line) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (!sees_nothing()) _exit(1);
    if (resets_itself) {
      signal(SIGTERM, on_term);
      raise(SIGTERM);
      _exit(2);
    }
    if (write(line[1], "x", 1) != 1) _exit(3);
    for (;;) pause();
  }
  close(line[1]);
  if (!resets_itself) {
    CHECK(read(line[0], &byte, 1) == 1);
    CHECK(kill(child, SIGTERM) == 0);
  }
  close(line[0]);
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return status;
}

static void *wait_for_user(void *taken) {
  CHECK(sigwait(&taken_here, (int *)taken) == 0);
  return NULL;
}

// A handler for a while, by both ways to send, and in a thread.
static void handle(int step) {
  struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_RESTART}, before;
  CHECK(sigaction(SIGUSR1, &action, &before) == 0 && before.sa_handler == SIG_DFL);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  CHECK(raise(SIGUSR1) == 0);
  CHECK(users == 2 * step);
  CHECK(signal(SIGUSR1, SIG_DFL) == on_user);
}

// Blocked by all threads, it is pending until somebody takes it.
static void take(void) {
  sigset_t pending;
  int taken = 0;
  CHECK(kill(getpid(), SIGUSR2) == 0);
  pause_ms(5);
  CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2));
  CHECK(sigwait(&taken_here, &taken) == 0 && taken == SIGUSR2);
  pthread_t thread;
  taken = 0;
  CHECK(pthread_create(&thread, NULL, wait_for_user, &taken) == 0);
  CHECK(pthread_kill(thread, SIGUSR2) == 0);
  CHECK(pthread_join(thread, NULL) == 0 && taken == SIGUSR2);
}

int main(int argc, char **argv) {
  sigemptyset(&taken_here);
  sigaddset(&taken_here, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &taken_here, NULL);  // in the MPI's threads as well
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  sigemptyset(&held);
  sigaddset(&held, SIGUSR1);
  sigaddset(&held, SIGTERM);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(sees_nothing());
    int status = end_of_fork(0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = end_of_fork(1);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = system("kill -TERM $$; exit 3");
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    handle(step);
    take();
    CHECK(sees_nothing());
    report_step(step, o.step_ms);
    mix_int(users);
  }
  finish();
  return 0;
}
