// SPDX-License-Identifier: Apache-2.0
// A program with an alarm. --mode says what for:
//   pause    after step 1 all ranks pause() until it comes, which ends the pause with EINTR
//   cancel   it comes 20 seconds after step 1 and would end the program; a thread cancels it when
//            there is $CHECK_HOLD.cancel
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "../check.h"

static volatile sig_atomic_t rung;
static int cancelled;

static void on_alarm(int signal) {
  (void)signal;
  rung++;
}

static void wait_for_alarm(void) {
  struct sigaction action = {.sa_handler = on_alarm};
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  alarm(4);
  printf("rank %d pauses\n", rank);
  fflush(stdout);
  CHECK(pause() == -1 && errno == EINTR && rung == 1);
}

static void *cancel(void *unused) {
  char path[4096];
  snprintf(path, sizeof path, "%s.cancel", hold_file ? hold_file : "");
  while (hold_file && access(path, F_OK) != 0) pause_ms(1);
  alarm(0);
  __atomic_store_n(&cancelled, 1, __ATOMIC_RELEASE);
  return unused;
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  const int pauses = argc > 2 && !strcmp(argv[argc - 1], "pause");
  pthread_t thread;
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (step == 2 && pauses) wait_for_alarm();
    if (step == 1 && !pauses) {
      alarm(20);
      CHECK(pthread_create(&thread, NULL, cancel, NULL) == 0);
    }
    report_step(step, o.step_ms);
    mix_int(step);
  }
  if (!pauses) {
    while (!__atomic_load_n(&cancelled, __ATOMIC_ACQUIRE)) pause_ms(1);
    pthread_join(thread, NULL);
  }
  finish();
  return 0;
}
