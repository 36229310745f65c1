// SPDX-License-Identifier: Apache-2.0
// Row: signals that another process sends reach the handler with their sender and value

// As a batch system does (SIGTERM, SIGUSR1), or a monitor with values. The sender is a child.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static volatile sig_atomic_t terms, users, queued, wrong;
static pid_t sender;
static sigset_t signals;

static void on_signal(int signal, siginfo_t *info, void *context) {
  (void)context;
  if (info->si_signo != signal) wrong = 1;
  if (signal == SIGTERM) terms++;
  if (signal == SIGUSR1) users++;
  if (info->si_pid != sender || info->si_uid != getuid()) wrong = 2;
  if (signal >= SIGRTMIN) {
    if (info->si_code != SI_QUEUE || info->si_value.sival_int != 4000 + queued % 8) wrong = 3;
    queued++;
  } else if (info->si_code != SI_USER) {
    wrong = 4;
  }
}

// The signals are blocked until the sender's id is known.
static void be_sent(void) {
  const pid_t target = getpid();
  sender = fork();
  if (sender == 0) {
    for (int i = 0; i < 8; i++)
      if (sigqueue(target, SIGRTMIN + 4, (union sigval){.sival_int = 4000 + i})) _exit(1);
    _exit(kill(target, SIGTERM) || kill(target, SIGUSR1));
  }
  int status = 0;
  CHECK(sender > 0 && waitpid(sender, &status, 0) == sender);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

int main(int argc, char **argv) {
  const int all[] = {SIGTERM, SIGUSR1, SIGRTMIN + 4};
  sigemptyset(&signals);
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) sigaddset(&signals, all[i]);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);  // in the MPI's threads as well
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigfillset(&action.sa_mask);
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
    CHECK(sigaction(all[i], &action, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    be_sent();
    CHECK(!wrong && terms == step && users == step && queued == 8 * step);
    struct sigaction now;
    CHECK(sigaction(SIGTERM, NULL, &now) == 0);
    CHECK(now.sa_sigaction == on_signal && sigismember(&now.sa_mask, SIGHUP) &&
          now.sa_flags & SA_SIGINFO);
    report_step(step, o.step_ms);
    mix_int(terms + users + queued);
  }
  finish();
  return 0;
}
