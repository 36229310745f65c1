// SPDX-License-Identifier: Apache-2.0
// Row: blocked signals stay pending, for a thread or the process, queued ones in order with values

// Every step sends signals that all threads block, lets a checkpoint come, and then fetches them.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "../check.h"

#define QUEUED 5

static pthread_barrier_t meeting;
static sigset_t blocked;
static int stopping;

static siginfo_t fetch(int signal) {
  sigset_t one;
  siginfo_t info;
  sigemptyset(&one);
  sigaddset(&one, signal);
  CHECK(sigtimedwait(&one, &info, &(struct timespec){0, 0}) == signal);
  return info;
}

static void fetch_queued(int signal, int first, int count, pid_t sender) {
  for (int i = 0; i < count; i++) {
    const siginfo_t info = fetch(signal);
    CHECK(info.si_code == SI_QUEUE && info.si_pid == sender && info.si_uid == getuid());
    CHECK(info.si_value.sival_int == first + i);
    mix_int(info.si_value.sival_int);
  }
}

static int is_pending(int signal) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, signal);
}

static void nothing_is_left(void) {
  CHECK(sigtimedwait(&blocked, NULL, &(struct timespec){0, 0}) == -1 && errno == EAGAIN);
}

static void queue_to(pthread_t thread, int signal, int first) {
  for (int i = 0; i < QUEUED; i++)
    CHECK(pthread_sigqueue(thread, signal, (union sigval){.sival_int = first + i}) == 0);
}

static int sent_by;  // process id when this step's signals were sent

static void *work(void *unused) {
  for (int step = 1;; step++) {
    pthread_barrier_wait(&meeting);  // the signals have been sent
    pthread_barrier_wait(&meeting);  // ... and may be fetched
    if (stopping) return unused;
    CHECK(!is_pending(SIGUSR1) && is_pending(SIGUSR2));  // the main thread's, the process's
    fetch_queued(SIGRTMIN + 2, step * 10, QUEUED, sent_by);
    CHECK(!is_pending(SIGRTMIN + 2));
    pthread_barrier_wait(&meeting);  // the worker has fetched its own
  }
}

static void send_signals(pthread_t worker, int step) {
  sent_by = getpid();
  pthread_kill(pthread_self(), SIGUSR1);
  kill(getpid(), SIGUSR2);
  // One number, two queues: a thread's own come first.
  for (int i = 0; i < QUEUED; i++)
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = step * 100 + i}) == 0);
  queue_to(pthread_self(), SIGRTMIN + 1, step);
  queue_to(worker, SIGRTMIN + 2, step * 10);
}

static void fetch_signals(int step) {
  CHECK(fetch(SIGUSR1).si_pid == sent_by);
  const siginfo_t user = fetch(SIGUSR2);
  CHECK(user.si_code == SI_USER && user.si_pid == sent_by && user.si_uid == getuid());
  fetch_queued(SIGRTMIN + 1, step, QUEUED, sent_by);
  fetch_queued(SIGRTMIN + 1, step * 100, QUEUED, sent_by);
  nothing_is_left();
}

int main(int argc, char **argv) {
  sigemptyset(&blocked);
  const int all[] = {SIGUSR1, SIGUSR2, SIGRTMIN + 1, SIGRTMIN + 2};
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) sigaddset(&blocked, all[i]);
  pthread_sigmask(SIG_BLOCK, &blocked, NULL);  // before MPI makes threads of its own
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 10, 0);
  pthread_barrier_init(&meeting, NULL, 2);
  pthread_t worker;
  CHECK(pthread_create(&worker, NULL, work, NULL) == 0);
  for (int step = 1; step <= o.steps; step++) {
    send_signals(worker, step);
    pthread_barrier_wait(&meeting);
    MPI_Barrier(MPI_COMM_WORLD);
    report_step(step, o.step_ms);
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting);
    fetch_signals(step);
  }
  stopping = 1;
  pthread_barrier_wait(&meeting);
  pthread_barrier_wait(&meeting);
  CHECK(pthread_join(worker, NULL) == 0);
  finish();
  return 0;
}
