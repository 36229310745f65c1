// SPDX-License-Identifier: Apache-2.0
// Row: signals that say a descriptor can be read: O_ASYNC, F_SETOWN, F_SETSIG
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"

static volatile sig_atomic_t plain, numbered, number;

static void on_plain(int signal) {
  (void)signal;
  plain++;
}
static void on_numbered(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  numbered++;
  number = info->si_fd;
}

static void wait_for(volatile sig_atomic_t *count, int wanted) {
  for (int i = 0; i < 2000 && *count < wanted; i++) pause_ms(1);
  CHECK(*count == wanted);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  int pipes[2], pair[2];
  CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  struct sigaction action = {.sa_handler = on_plain, .sa_flags = SA_RESTART};
  CHECK(sigaction(SIGIO, &action, NULL) == 0);
  action = (struct sigaction){.sa_sigaction = on_numbered, .sa_flags = SA_RESTART | SA_SIGINFO};
  CHECK(sigaction(SIGRTMIN + 3, &action, NULL) == 0);
  CHECK(fcntl(pipes[0], F_SETOWN, getpid()) == 0);
  CHECK(fcntl(pipes[0], F_SETFL, O_ASYNC) == 0);
  CHECK(fcntl(pair[0], F_SETOWN, getpid()) == 0 && fcntl(pair[0], F_SETSIG, SIGRTMIN + 3) == 0);
  CHECK(fcntl(pair[0], F_SETFL, O_ASYNC) == 0);
  char byte;
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    CHECK(write(pipes[1], "p", 1) == 1);
    wait_for(&plain, step);
    CHECK(write(pair[1], "s", 1) == 1);
    wait_for(&numbered, step);
    CHECK(number == pair[0]);
    CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'p');
    CHECK(read(pair[0], &byte, 1) == 1 && byte == 's');
    CHECK(fcntl(pipes[0], F_GETOWN) == (int)getpid() && fcntl(pair[0], F_GETSIG) == SIGRTMIN + 3);
    mix_int(plain + numbered);
  }
  finish();
  return 0;
}
