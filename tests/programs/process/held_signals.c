// SPDX-License-Identifier: Apache-2.0
// Threads sit in every kind of blocking call while another process sends signals that are to save
// the job: none of the calls may end. With --handle this program has a handler for SIGUSR1, and
// tells how often it has run; with --suspend it installs that while a thread waits for SIGUSR1 by
// sigsuspend(2), which all others block; with --take a thread takes SIGUSR1 by sigwait(3).
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../check.h"

static int channel[2];
static volatile sig_atomic_t handled;
static const struct timespec long_time = {3600, 0};

static long by_poll(void) {
  struct pollfd fd = {.fd = channel[0], .events = POLLIN};
  return poll(&fd, 1, 3600000);
}
static long by_select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(channel[0], &set);
  return select(channel[0] + 1, &set, NULL, NULL, NULL);
}
static long by_epoll(void) {
  struct epoll_event event = {.events = EPOLLIN};
  const int fd = epoll_create1(0);
  epoll_ctl(fd, EPOLL_CTL_ADD, channel[0], &event);
  return epoll_wait(fd, &event, 1, 3600000);
}
static long by_sleep(void) { return nanosleep(&long_time, NULL); }
static long by_futex(void) {
  static int word;
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &long_time, NULL, 0);
}
static long by_read(void) {
  char byte;
  return read(channel[0], &byte, 1);
}
static long by_ppoll(void) {
  struct pollfd fd = {.fd = channel[0], .events = POLLIN};
  sigset_t none;
  sigemptyset(&none);
  return ppoll(&fd, 1, NULL, &none);
}
static long by_sigtimedwait(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGWINCH);
  return sigtimedwait(&set, NULL, &long_time);
}
static long by_pause(void) { return pause(); }
static long (*const waits[])(void) = {by_poll, by_select,       by_epoll, by_sleep, by_futex,
                                      by_read, by_sigtimedwait, by_pause, by_ppoll};
enum { kWaits = sizeof waits / sizeof *waits };

static void *sit(void *index) {
  const long result = waits[(size_t)index]();
  printf("FAIL rank %d: wait %zu ended: %ld, errno %d\n", rank, (size_t)index, result, errno);
  fflush(stdout);
  _exit(3);
}

static void on_user(int signal) { handled += signal == SIGUSR1; }

static void *take(void *unused) {
  (void)unused;
  sigset_t set;
  int signal = 0;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  for (;;) {
    CHECK(sigwait(&set, &signal) == 0);
    handled++;
  }
}

static void *suspend(void *unused) {
  (void)unused;
  sigset_t none;
  sigemptyset(&none);
  for (;;) sigsuspend(&none);
}

int main(int argc, char **argv) {
  start(&argc, &argv);
  const struct options o = parse_options(argc, argv, 20, 0);
  const int handles = has_option(argc, argv, "--handle"), takes = has_option(argc, argv, "--take");
  const int suspends = has_option(argc, argv, "--suspend");
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  CHECK(pipe(channel) == 0);
  if (takes || suspends) pthread_sigmask(SIG_BLOCK, &user, NULL);
  pthread_t thread;
  // The handler's own thread is the main one: in the others it would end their calls, rightly.
  if (handles) pthread_sigmask(SIG_BLOCK, &user, NULL);
  for (size_t i = 0; i < kWaits && !((handles || suspends) && i == kWaits - 1); i++)
    CHECK(pthread_create(&thread, NULL, sit, (void *)i) == 0);
  if (takes) CHECK(pthread_create(&thread, NULL, take, NULL) == 0);
  if (suspends) CHECK(pthread_create(&thread, NULL, suspend, NULL) == 0);
  if (suspends) pause_ms(200);  // the thread waits by then, or the test shows less
  struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_RESTART};
  if (handles || suspends) CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  if (handles) pthread_sigmask(SIG_UNBLOCK, &user, NULL);
  for (int step = 1; step <= o.steps; step++) {
    MPI_Barrier(MPI_COMM_WORLD);
    const struct timespec time = {0, o.step_ms * 1000000L};
    CHECK(nanosleep(&time, NULL) == 0 || handles || suspends);
    struct sigaction now;
    CHECK(sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    report_step(step, 0);
    if (handled) printf("handled %d\n", rank);
    fflush(stdout);
    mix_int(step);
  }
  finish();
  fflush(stdout);
  _exit(0);  // the threads sit where they are
}
